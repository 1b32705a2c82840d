/**
 * Entry of the process that plans the memory of models. Their files are read here, because the API process holds
 * secrets and reads no model.
 */

import { withoutMargin } from '../config/budget.js';
import type { EngineConfig } from '../config/engine-config.js';
import { type ErrorBody, SidaError } from '../errors.js';
import { modelPlanner } from '../inference/model-planner.js';
import { type Sizes, sizesOf } from '../inference/sizes.js';
import { freeMemory } from '../machine/free-memory.js';

export interface PlanRequest {
  configs: EngineConfig[];
  /** Bytes that the models share; auto: what the machine has free, less the margin. */
  total: number | 'auto';
  /** Whether each may have all of it, because others are unloaded then. */
  alone: boolean;
}

/** The sizes of each configuration, in order, each with an equal part of the total, or with all of it. */
export type FromPlanHost = { sizes: Sizes[] } | { error: ErrorBody };

async function answer(): Promise<FromPlanHost> {
  try {
    const { configs, total, alone } = JSON.parse(process.argv[2]!) as PlanRequest;
    const sizes = configs.map(async (config) => {
      const { formats, plan } = await modelPlanner(config.model, config);
      const free = freeMemory(config.device);
      const part = Math.floor(
        (total === 'auto' ? withoutMargin(free) : total) / (alone ? 1 : configs.length),
      );
      return sizesOf(plan, { ...config, memoryBudget: String(part) }, formats, free);
    });
    return { sizes: await Promise.all(sizes) };
  } catch (error) {
    return { error: SidaError.from(error).toBody() };
  }
}

process.send!(await answer(), () => process.disconnect());
