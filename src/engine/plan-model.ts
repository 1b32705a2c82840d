/** Plans the memory of a model that may be packed or not, before anything of its weights is read. */
import { isPack } from '../checkpoint/manifest.js';
import { preparedFormats } from '../checkpoint/prepare-pack.js';
import { resolveFormats } from '../checkpoint/weight-format.js';
import type { EngineConfig } from '../config/engine-config.js';
import { batchLimits } from '../inference/open-engine.js';
import { loadAddon } from '../native/addon.js';
import type { MemoryPlan } from '../native/addon-types.js';

export async function planOf(config: EngineConfig): Promise<MemoryPlan> {
  const { model, experts, dense } = config;
  const addon = loadAddon();
  const limits = batchLimits(config);
  if (isPack(model)) {
    await preparedFormats(model, { experts, dense });
    return addon.planMemory({ pack: model }, limits);
  }
  const { lossless } = addon.inspectCheckpoint(model);
  return addon.planMemory({ checkpoint: model, ...resolveFormats(config, lossless) }, limits);
}
