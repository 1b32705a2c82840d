/** Plans the memory of a model from its files, without opening it. */
import { isPack } from '../checkpoint/manifest.js';
import { preparedFormats } from '../checkpoint/prepare-pack.js';
import { type FormatChoices, resolveFormats } from '../checkpoint/weight-format.js';
import { loadAddon } from '../native/addon.js';
import type {
  BatchLimits,
  CheckpointInfo,
  MemoryPlan,
  PackFormats,
  WeightFormat,
} from '../native/addon-types.js';

export interface ModelPlanner {
  formats: PackFormats;
  /** Undefined for a pack, whose manifest names no more than its layout. */
  checkpoint: CheckpointInfo | undefined;
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
  const checkpoint = addon.inspectCheckpoint(model);
  const formats = resolveFormats(choices, checkpoint.lossless);
  return {
    formats,
    checkpoint,
    plan: (limits, experts = formats.experts) =>
      addon.planMemory({ checkpoint: model, experts, dense: formats.dense }, limits),
  };
}
