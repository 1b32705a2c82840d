/**
 * Entry of the process that plans the memory of models. Their files are read here, because the API process holds
 * secrets and reads no model.
 */

import { isPack } from '../checkpoint/manifest.js';
import { preparedFormats } from '../checkpoint/prepare-pack.js';
import { resolveFormats } from '../checkpoint/weight-format.js';
import type { EngineConfig } from '../config/engine-config.js';
import { type ErrorBody, SidaError } from '../errors.js';
import { batchLimits } from '../inference/open-engine.js';
import { loadAddon } from '../native/addon.js';
import type { MemoryPlan } from '../native/addon-types.js';

/** One plan for each configuration, in order. */
export type FromPlanHost = { plans: MemoryPlan[] } | { error: ErrorBody };

async function planOf(config: EngineConfig): Promise<MemoryPlan> {
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

async function answer(): Promise<FromPlanHost> {
  try {
    const configs = JSON.parse(process.argv[2]!) as EngineConfig[];
    return { plans: await Promise.all(configs.map(planOf)) };
  } catch (error) {
    return { error: SidaError.from(error).toBody() };
  }
}

process.send!(await answer(), () => process.disconnect());
