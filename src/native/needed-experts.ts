import { EXPERT_UNUSED, type RunResult } from './engine-types.js';
import type { ModelShape } from './pack-types.js';

/** The flat ids of the experts that a pass needed, layer by layer. */
export function neededExperts(
  { layers, found }: Pick<RunResult, 'layers' | 'found'>,
  { experts, firstExperts }: Pick<ModelShape, 'experts' | 'firstExperts'>,
): number[][] {
  return Array.from(layers, (flatLayer, layer) => {
    const ids: number[] = [];
    for (let e = 0; e < experts; e++) {
      if (found[layer * experts + e] !== EXPERT_UNUSED) ids.push(firstExperts[flatLayer]! + e);
    }
    return ids;
  });
}
