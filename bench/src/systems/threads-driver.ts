/**
 * Runs a measurement on the inference and hash-building threads of `sida serve`. The queue between them is always full.
 */
import { startThreads } from '../../../dist/engine/engine-threads.js';
import { predictorChoice } from '../../../dist/engine/predictor-choice.js';
import type { InferenceFigures } from '../../../dist/protocol/engine-messages.js';
import type { FromInference } from '../../../dist/protocol/inference-messages.js';
import { BatchFeed } from '../../../dist/scheduler/batch.js';
import { hashFunctionModule } from '../support/paths.js';
import { groupsOf } from './batches.js';
import { figuresOf, type MeasuredRun } from './digest.js';
import { engineConfig } from './engine-config.js';
import { JobBatcher } from './job-batcher.js';
import { leastBytesOf } from './least-bytes.js';
import { scoringInputs } from './scoring.js';
import type { MeasurementWork, Sample } from './work.js';

interface Run extends MeasuredRun {
  counters: InferenceFigures;
}

export async function runOnThreads(work: MeasurementWork): Promise<Sample> {
  const { pack, weights, texts, labels, warmUp, batch } = work;
  const config = engineConfig(work.flags);
  const predictor = predictorChoice(config);
  if (work.system === 'replay' || work.system === 'shuffled') {
    process.env.SIDA_HASH_FUNCTION_MODULE = hashFunctionModule(work.system);
  }
  let fail: (error: unknown) => void = () => {};
  const failed = new Promise<never>((_, reject) => {
    fail = (error) => reject(error);
  });
  const starting = startThreads({ config, pack, weights, peerIdentity: '', predictor, onError: fail });
  const { inference, hashBuilder, choosing, queue, handOn, opened } = await Promise.race([starting, failed]);
  const { shape, plan, usage } = opened;

  const { inputs, encode, plan: scoring } = scoringInputs(pack, shape, texts, labels);
  const routingK = config.routing === 'predicted' ? (config.routingK ?? shape.topK) : 0;
  let nextJob = 0;
  let nextItem = 0;
  const batches = new BatchFeed({ batcher: new JobBatcher(), queue, handOn });
  void batches.follow();
  /** A batch is one job with as many items. */
  const send = (group: readonly Int32Array[]) => {
    const job = nextJob++;
    const requests = group.map((tokens) => {
      const work = { kind: 'score' as const, plan: scoring };
      return { item: nextItem++, job, jobItems: group.length, routingK, owner: '', dueMs: 0, work, tokens };
    });
    batches.add(requests);
  };

  let onInference: (message: FromInference) => void = () => {};
  inference.listen((message) => {
    if (message.type === 'job-error') fail(new Error(message.error.message));
    else onInference(message);
  });
  /** Flat ids of the experts that hold a slot. */
  const held = () =>
    new Promise<number[]>((resolve) => {
      onInference = (message) => {
        if (message.type !== 'control-reply' || message.reply.kind !== 'experts') return;
        const states = message.reply.layers.flatMap(({ experts }) => experts);
        resolve(states.flatMap(({ state }, id) => (state === 'absent' ? [] : [id])));
      };
      inference.post({ type: 'control', id: 0, request: { kind: 'experts' } });
    });
  const { name, warnings } = await Promise.race([choosing, failed]);
  hashBuilder?.listen((message) => {
    if (message.type === 'warning') warnings.push(message.message);
  });
  // A predictor without a chosen kind opens its default.
  const expected = predictor === null ? null : (predictor.kind ?? name ?? 'a network');
  if (name !== expected) throw new Error(`${work.system}: ${name} opened, not ${expected}: ${warnings.join('; ')}`);

  /** Batches that run one after the other. */
  const run = (sentences: readonly Int32Array[]): Promise<Run> => {
    const groups = groupsOf(sentences, batch);
    const firstItem = nextItem;
    const scores: number[][] = [];
    const milliseconds: number[] = [];
    const begin = performance.now();
    let [done, wallMs] = [0, 0];
    return new Promise((resolve) => {
      onInference = (message) => {
        if (message.type === 'done') {
          scores[message.item - firstItem] = message.scores!;
          done += 1;
          // The batch ends with its last item.
          if (message.end) milliseconds.push(message.end.endedMs - message.end.startedMs);
          if (done === sentences.length) wallMs = performance.now() - begin;
        } else if (message.type === 'counters' && wallMs > 0) {
          resolve({ scores, milliseconds, wallMs, counters: message.counters });
        }
      };
      for (const group of groups) send(group);
    });
  };

  const warm = warmUp.map(encode);
  const before = (await Promise.race([run(warm), failed])).counters;
  const begin = await Promise.race([held(), failed]);
  const { counters: after, ...measured } = await Promise.race([run(inputs), failed]);
  const since = (key: NumberKey) => after[key] - before[key];
  return {
    ...figuresOf(measured, inputs, plan, usage),
    peakBytes: after.usage.peakBytes,
    needed: since('expertsNeeded'),
    resident: since('expertsResident'),
    prefetched: since('expertsPrefetched'),
    late: since('expertsLate'),
    onDemand: since('expertsOnDemand'),
    bytesMoved: since('bytesMoved'),
    stallSeconds: since('stallSeconds'),
    passSeconds: since('passSeconds'),
    passes: since('passes'),
    tableSeconds: after.tables.seconds - before.tables.seconds,
    tableWaitSeconds: since('tableWaitSeconds'),
    ...(work.needs && { leastBytes: leastBytesOf({ begin, visits: work.needs }, plan, usage.slots) }),
    routingsPredicted: since('routingsPredicted'),
    routingHitsTop1: since('routingHitsNarrow'),
    warnings: [...new Set(warnings)],
  };
}

type NumberKey = {
  [K in keyof InferenceFigures]: InferenceFigures[K] extends number ? K : never;
}[keyof InferenceFigures];
