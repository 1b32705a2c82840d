import { expect } from 'vitest';
import { answerControl } from '../../../src/inference/engine-control.js';
import { PassPlanner } from '../../../src/inference/pass-planner.js';
import { createQueue, QueueConsumer, QueueProducer } from '../../../src/protocol/batch-queue.js';
import { BuilderStats } from '../../../src/protocol/builder-stats.js';
import type {
  FromInference,
  PreparedRequest,
  QueuedBatch,
  ToInference,
} from '../../../src/protocol/inference-messages.js';
import { SharedFlag } from '../../../src/protocol/shared-flag.js';
import { InferenceLoop } from '../../../src/scheduler/loop.js';
import { PAGE_TOKENS, ScriptedEngine, SHAPE } from './scripted-native-engine.js';

type Message<T extends FromInference['type']> = Extract<FromInference, { type: T }>;

let closePort = () => {};

/** Call it after each test, because an open port keeps the process alive. */
export function closeBench(): void {
  closePort();
}

/** A loop over a scripted engine, driven turn by turn. */
export function bench(pages = 64, shape = SHAPE, prefixCache = false, states: number | null = null) {
  const engine = new ScriptedEngine(pages, shape, states);
  const { producer, consumer } = createQueue(8);
  closePort = () => producer.port.close();
  const queue = new QueueProducer<QueuedBatch>(producer);
  const consumed = new QueueConsumer<QueuedBatch>(consumer);
  const control: ToInference[] = [];
  const out: FromInference[] = [];
  const builderStats = new BuilderStats();
  const loop = new InferenceLoop({
    engine,
    pageTokens: PAGE_TOKENS,
    maxBatchTokens: 32,
    prefixCache,
    routeAhead: 0,
    builderStats,
    planner: new PassPlanner({
      engine,
      queue: consumed,
      resident: new SharedFlag(),
      builderStats,
      linkBandwidth: 0,
    }),
    control: (request, cached) => answerControl(request, { engine, cached, routeAhead: 0, builderStats }),
    stepTables: null,
    queue: consumed,
    nextControl: () => control.shift(),
    emit: (message) => out.push(message),
  });
  let batchId = 0;
  const send = (
    ...items: (Pick<PreparedRequest, 'item' | 'job' | 'work'> & {
      tokens: number[];
      jobItems?: number;
      prefixScope?: string;
      owner?: string;
      dueMs?: number;
    })[]
  ) => {
    const requests = items.map(({ tokens, ...rest }) => {
      const usual = { jobItems: 1, routingK: 0, prefixScope: '', owner: '', dueMs: 0 };
      return { ...usual, ...rest, tokens: Int32Array.from(tokens) };
    });
    queue.put({ batch: { id: batchId++, routingK: 0, requests }, tables: null });
  };
  const settle = (most = 200) => {
    for (let turns = 0; loop.turn(); turns++) if (turns > most) throw new Error('does not settle');
  };
  const of = <T extends FromInference['type']>(type: T) =>
    out.filter((m): m is Message<T> => m.type === type);
  const tokensOf = (item: number, choice = 0) =>
    of('tokens')
      .flatMap(({ tokens }) => tokens)
      .filter((token) => token.item === item && token.choice === choice)
      .map(({ id }) => id);
  const clean = () => {
    expect(engine.sequences.size).toBe(0);
  };
  return { engine, loop, control, out, send, settle, of, tokensOf, clean };
}
