import { fillNeed } from '../../../../src/forecast/expert-need.js';
import type { PassForecast } from '../../../../src/forecast/pass-forecast.js';
import { isEncoderDecoder } from '../../../../src/native/model-shape.js';
import type { StepTables } from '../../../../src/predictor/step-tables.js';
import { createHashTable, type HashTable, TABLE_READY } from '../../../../src/protocol/hash-table.js';
import type { PreparedRequest } from '../../../../src/protocol/inference-messages.js';
import { Generations } from '../../../../src/scheduler/generations.js';
import { DecoderOnly } from '../../../../src/scheduler/kinds/decoder-only.js';
import { EncoderDecoder } from '../../../../src/scheduler/kinds/encoder-decoder.js';
import { PageLeases } from '../../../../src/scheduler/pages.js';
import { type PassSequence, passAnswers, passBatch } from '../../../../src/scheduler/pass-batch.js';
import type { PassRunner } from '../../../../src/scheduler/passes.js';
import { type Outcomes, openRequests, type Request } from '../../../../src/scheduler/request.js';
import { RunningRequests } from '../../../../src/scheduler/running-requests.js';
import { Matchers } from '../../../../src/structured-output/matchers.js';
import { PAGE_TOKENS, ScriptedEngine, SHAPE } from '../scripted-native-engine.js';

/** A table that names one expert for each token, by layer, of a stack with so many MoE layers. */
export function tableOf(experts: number[], layers = 1) {
  const table = createHashTable({
    batchId: 0,
    layers,
    tokens: experts.length / layers,
    k: 1,
    expertsPerLayer: 4,
  });
  table.experts.set(experts);
  table.chance.fill(1);
  fillNeed(table);
  table.settle(TABLE_READY);
  return table;
}

/** A kind of model over a scripted engine, and the forecasts that its passes were given. */
export function kindBench({
  pages = 64,
  shape = SHAPE,
  stepTables = null,
}: {
  pages?: number;
  shape?: typeof SHAPE;
  stepTables?: StepTables | null;
}) {
  const engine = new ScriptedEngine(pages, shape);
  const forecasts: PassForecast[] = [];
  let nextId = 0;
  const run = (stack: number, sequences: readonly PassSequence[], forecast: PassForecast) => {
    forecasts.push(forecast);
    return passAnswers(sequences, engine.runBatch(passBatch(stack, sequences)));
  };
  const passes: PassRunner = {
    maxBatchTokens: 32,
    newId: () => nextId++,
    run,
    runAll: (stack, sequences, forecast, take) => {
      for (const [i, answer] of run(stack, sequences, forecast).entries()) take(i, answer);
    },
  };
  const leases = new PageLeases({
    encodes: isEncoderDecoder(shape),
    kvPages: pages,
    kvPageTokens: PAGE_TOKENS,
    kvWindows: [],
    maxBatchTokens: 32,
  });
  const done: number[] = [];
  const outcomes: Outcomes = {
    tokens: () => {},
    done: (item) => done.push(item),
    failed: (_, error) => {
      throw error;
    },
  };
  const running = new RunningRequests({ engine, pages: leases, outcomes, newId: () => nextId++ });
  const planner = { needsForecast: true, takeSaved: () => undefined };
  const generations = new Generations({ engine, planner, stepTables, requests: running, outcomes });
  const kind = new (isEncoderDecoder(shape) ? EncoderDecoder : DecoderOnly)({
    engine,
    passes,
    tableWait: { passTook: () => {} },
    generations,
    matchers: new Matchers(shape.vocabSize, () => {}),
    running,
    outcomes,
    onSuspend: () => {},
  });
  let [nextBatch, nextOrder] = [0, 0];
  /** The requests of a batch. */
  const hold = (
    items: (Pick<PreparedRequest, 'work'> & { tokens: number[] })[],
    tables: (HashTable | null)[] = [],
  ) => {
    const id = nextBatch++;
    const requests = items.map(({ work, tokens }, i): PreparedRequest => {
      const item = 10 * id + i;
      const rest = { jobItems: 1, routingK: 0, owner: '', dueMs: 0, tokens: Int32Array.from(tokens) };
      return { item, job: item, work, ...rest };
    });
    const queued = { batch: { id, routingK: 0, requests }, tables: null };
    const encodes = isEncoderDecoder(shape);
    const opened = openRequests(queued, { order: nextOrder, shares: false, encodes });
    nextOrder += opened.length;
    for (const { batch } of opened) batch.tables = tables;
    return opened;
  };
  /** Starts the requests that get their pages. */
  const start = (requests: Request[]) => kind.start(requests.filter((request) => running.start(request)));
  return { engine, kind, forecasts, done, hold, start };
}
