/** Plans the memory of a model from its files, without opening it. */
import { configFormats, hasOnlyConfig, planOfConfig } from '../checkpoint/config-plan.js';
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
  /** Null where only the config is there. */
  shape: ModelShape | null;
  /** Packed element types that lose nothing of it. */
  lossless: PackFormats;
  /** Its MoE layers. */
  layers: string[];
}

export interface ModelPlanner {
  formats: PackFormats;
  /** Undefined for a pack, whose manifest names no more than its layout. */
  checkpoint: Checkpoint | undefined;
  /** With `experts`, a checkpoint is planned as if packed with experts of that type. */
  plan(limits: BatchLimits, experts?: WeightFormat): MemoryPlan;
}

/** Rejects as preparedFormats does, and with checkpoint_invalid. */
export async function modelPlanner(model: string, choices: FormatChoices): Promise<ModelPlanner> {
  const addon = loadAddon();
  if (isPack(model)) {
    const formats = await preparedFormats(model, choices);
    return { formats, checkpoint: undefined, plan: (limits) => addon.planMemory({ pack: model }, limits) };
  }
  const fromConfig = hasOnlyConfig(model);
  const checkpoint = fromConfig ? checkpointOfConfig(model) : checkpointAt(model);
  const formats = resolveFormats(choices, checkpoint.lossless);
  return {
    formats,
    checkpoint,
    plan: (limits, experts = formats.experts) => {
      const packed = { experts, dense: formats.dense };
      return fromConfig
        ? planOfConfig(model, packed, limits)
        : addon.planMemory({ checkpoint: model, ...packed }, limits);
    },
  };
}

function checkpointAt(model: string): Checkpoint {
  const { shape, lossless } = loadAddon().inspectCheckpoint(model);
  return { shape, lossless, layers: shape.moeLayers };
}

function checkpointOfConfig(model: string): Checkpoint {
  const lossless = configFormats(model);
  const { layers } = loadAddon().describePack({ config: model, ...lossless }).experts;
  return { shape: null, lossless, layers };
}
