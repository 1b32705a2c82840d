/** Plans the memory of a model from its files, without opening it. */
import { configFormats, hasOnlyConfig, withConfigPack } from '../checkpoint/config-plan.js';
import { inspectModel } from '../checkpoint/inspect-model.js';
import { isPack } from '../checkpoint/manifest.js';
import { preparedFormats } from '../checkpoint/prepare-pack.js';
import { type FormatChoices, resolveFormats } from '../checkpoint/weight-format.js';
import { loadAddon } from '../native/addon.js';
import type {
  BatchLimits,
  MemoryPlan,
  ModelShape,
  PackFormats,
  WeightFormat,
} from '../native/addon-types.js';

interface Checkpoint {
  shape: ModelShape;
  /** Packed element types that lose nothing of it. */
  lossless: PackFormats;
  /** Whether there are no weights, so that the element types are those that the config tells. */
  fromConfig: boolean;
}

export interface ModelPlanner {
  formats: PackFormats;
  /** Undefined for a pack, whose manifest names no more than its layout. */
  checkpoint: Checkpoint | undefined;
  /** With `experts`, a checkpoint is planned as if packed with experts of that type. */
  plan(limits: BatchLimits, experts?: WeightFormat): MemoryPlan;
  /** See NativeAddon.measureWeightSpeed. */
  weightSpeed(limits: BatchLimits): number;
}

/** Rejects as preparedFormats does, and with checkpoint_invalid. */
export async function modelPlanner(model: string, choices: FormatChoices): Promise<ModelPlanner> {
  const addon = loadAddon();
  type Source = Parameters<typeof addon.planMemory>[0];
  if (isPack(model)) {
    const formats = await preparedFormats(model, choices);
    return {
      formats,
      checkpoint: undefined,
      plan: (limits) => addon.planMemory({ pack: model }, limits),
      weightSpeed: (limits) => addon.measureWeightSpeed({ pack: model }, limits),
    };
  }
  const checkpoint = hasOnlyConfig(model) ? checkpointOfConfig(model) : checkpointAt(model);
  const formats = resolveFormats(choices, checkpoint.lossless);
  const withSource = <T>(experts: WeightFormat, body: (source: Source) => T): T => {
    const packed = { experts, dense: formats.dense };
    return checkpoint.fromConfig
      ? withConfigPack(model, packed, (pack) => body({ pack }))
      : body({ checkpoint: model, ...packed });
  };
  return {
    formats,
    checkpoint,
    plan: (limits, experts = formats.experts) =>
      withSource(experts, (source) => addon.planMemory(source, limits)),
    weightSpeed: (limits) =>
      withSource(formats.experts, (source) => addon.measureWeightSpeed(source, limits)),
  };
}

function checkpointAt(model: string): Checkpoint {
  const { shape, lossless } = inspectModel(model);
  return { shape, lossless, fromConfig: false };
}

function checkpointOfConfig(model: string): Checkpoint {
  const lossless = configFormats(model);
  const { shape } = loadAddon().describePack({ config: model, ...lossless });
  return { shape, lossless, fromConfig: true };
}
