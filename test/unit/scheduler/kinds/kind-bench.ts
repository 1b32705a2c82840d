import { isEncoderDecoder } from '../../../../src/native/model-shape.js';
import { fillNeed } from '../../../../src/predictor/expert-need.js';
import type { PassForecast } from '../../../../src/predictor/pass-forecast.js';
import type { StepTables } from '../../../../src/predictor/step-tables.js';
import { createHashTable, type HashTable, TABLE_READY } from '../../../../src/protocol/hash-table.js';
import type { BatchItem } from '../../../../src/protocol/inference-messages.js';
import { Generations } from '../../../../src/scheduler/generations.js';
import { HeldBatch } from '../../../../src/scheduler/held-batch.js';
import { HeldInputs } from '../../../../src/scheduler/held-inputs.js';
import { openKind } from '../../../../src/scheduler/kinds/index.js';
import type { Outcomes } from '../../../../src/scheduler/outcomes.js';
import { PageLeases } from '../../../../src/scheduler/page-leases.js';
import { type PassSequence, passAnswers, passBatch } from '../../../../src/scheduler/pass-batch.js';
import type { PassRunner } from '../../../../src/scheduler/passes.js';
import { Matchers } from '../../../../src/structure/matchers.js';
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
    encoderDecoder: isEncoderDecoder(shape),
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
  const inputs = new HeldInputs(engine, leases, outcomes);
  const planner = { needsForecast: true, takeSaved: () => undefined };
  const generations = new Generations({ engine, planner, stepTables, inputs, outcomes });
  const kind = openKind({
    engine,
    passes,
    tableWait: { passTook: () => {} },
    generations,
    matchers: new Matchers(shape.vocabSize, () => {}),
    inputs,
    outcomes,
  });
  /** A batch whose items are taken from the queue together. */
  const hold = (
    id: number,
    items: (Pick<BatchItem, 'work'> & { tokens: number[] })[],
    tables: (HashTable | null)[] = [],
  ) => {
    const offsets = [0];
    for (const { tokens } of items) offsets.push(offsets.at(-1)! + tokens.length);
    const tokens = Int32Array.from(items.flatMap((each) => each.tokens));
    const all = items.map(({ work }, i) => ({ item: 10 * id + i, job: 10 * id + i, jobItems: 1, work }));
    return new HeldBatch({ id, routingK: 0, items: all, offsets: Int32Array.from(offsets), tokens }, tables);
  };
  /** Starts the items that get their pages, at most `most` of them. */
  const start = (held: HeldBatch, most?: number) => kind.start(held.admit(leases, '', most), held);
  return { engine, kind, forecasts, done, hold, start };
}
