/**
 * Entry of the process that plans the memory of models. Their files are read here, because the API process holds
 * secrets and reads no model.
 */

import type { EngineConfig } from '../config/engine-config.js';
import { type ErrorBody, SidaError } from '../errors.js';
import type { MemoryPlan } from '../native/addon-types.js';
import { planOf } from './plan-model.js';

/** One plan for each configuration, in order. */
export type FromPlanHost = { plans: MemoryPlan[] } | { error: ErrorBody };

async function answer(): Promise<FromPlanHost> {
  try {
    const configs = JSON.parse(process.argv[2]!) as EngineConfig[];
    return { plans: await Promise.all(configs.map(planOf)) };
  } catch (error) {
    return { error: SidaError.from(error).toBody() };
  }
}

process.send!(await answer(), () => process.disconnect());
