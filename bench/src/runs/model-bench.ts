/** Prepares the measurements of one model: pack, inputs, traces, predictor. */
import type { MemoryPlan } from '../../../dist/native/addon-types.js';
import { type BenchInputs, readBenchInputs } from '../preparation/inputs.js';
import { type Maker, type PreparedModel, predictorOf, prepareModel } from '../preparation/prepare.js';
import { type Sizes, tabledTexts } from '../preparation/sizes.js';
import { labelTraceOf, textTraceOf } from '../preparation/traces.js';
import { openTrace } from '../replay/open-trace.js';
import { scoredBatches } from '../replay/scored-batches.js';
import { type BenchModel, MAX_BATCH_TOKENS } from '../scenarios/models.js';
import type { DataName, Measurement } from '../scenarios/scenarios.js';
import { systemNamed } from '../scenarios/systems.js';
import { dataFacts } from './data-facts.js';
import { askAddon, type Gpu } from './gpu.js';
import type { ModelFacts } from './result.js';

/** What the measurements of a model share. */
export interface ModelBench {
  model: BenchModel;
  prepared: PreparedModel;
  inputs: Map<DataName, BenchInputs>;
  traces: Map<DataName, string>;
  /** Flat ids by layer of each pass of the measured inputs, one a batch, from the true routing. */
  needs: Map<DataName, number[][]>;
  predictor: string | undefined;
  facts: ModelFacts;
}

interface BenchSizes {
  sizes: Sizes;
  /** Directory of the tasks' texts. */
  data: string | undefined;
  threads: number;
  gpu?: Gpu;
}

/** Prepares `measurements`, all of one model. Throws if something cannot be made. */
export async function prepareBench(
  model: BenchModel,
  measurements: readonly Measurement[],
  { sizes, data, threads, gpu }: BenchSizes,
  maker: Maker,
  warn: (message: string) => void,
): Promise<ModelBench> {
  const prepared = await prepareModel(model, maker);
  const needs = new Set(measurements.flatMap(({ system }) => systemNamed(system).needs));
  const training: string[] = [];
  const sets = [...new Set(measurements.map(({ scenario }) => scenario.data))];
  const limits = { maxBatchTokens: MAX_BATCH_TOKENS, kvTokens: 1.5 * MAX_BATCH_TOKENS, threads };
  const planned = JSON.stringify([{ pack: prepared.pack }, { ...limits, device: gpu ? 'cuda' : 'cpu' }]);
  const plan = await askAddon<MemoryPlan>(`planMemory(...${planned})`);
  const facts: ModelFacts = {
    model,
    bytes: { dense: plan.dense, routers: plan.routers, experts: plan.expertBytes, expert: plan.slot },
    data: {},
  };
  const bench: ModelBench = {
    model,
    prepared,
    inputs: new Map(),
    traces: new Map(),
    needs: new Map(),
    predictor: undefined,
    facts,
  };
  for (const name of sets) {
    const inputs = await readBenchInputs(name, {
      directory: data,
      sentences: sizes.sentences(model, name),
      trainingSentences: sizes.training(model),
    });
    for (const warning of inputs.warnings) warn(warning);
    bench.inputs.set(name, inputs);
    // Also made if no system replays it, because it shows which experts inputs need. Not on a GPU, whose time is short.
    if (gpu === undefined || needs.has('trace')) {
      const replayed = measurements.filter((one) => one.scenario.data === name && one.system === 'replay');
      const texts = tabledTexts(model, replayed, inputs);
      const trace = await labelTraceOf(prepared, inputs, texts, maker);
      bench.traces.set(name, trace);
      if (gpu === undefined) {
        const recorded = await openTrace(trace, plan.block);
        const batches = scoredBatches(recorded.batches, texts.length).slice(0, inputs.texts.length);
        facts.data[name] = dataFacts({ ...recorded, batches }, inputs.source);
        const passes = batches.flatMap((own) => own.passes);
        bench.needs.set(
          name,
          passes.flatMap(({ visits }) => visits.map((ids) => [...ids])),
        );
      }
    }
    if (needs.has('predictor') && model.weights === 'random') {
      training.push(await textTraceOf(prepared, inputs, inputs.training, maker));
    }
  }
  if (needs.has('predictor')) {
    bench.predictor = await predictorOf(model, prepared, training, sizes.trainingEpochs, maker);
  }
  return bench;
}
