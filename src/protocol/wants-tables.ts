/** Which batches get hash tables, where there is a predictor. */

import type { PromptBatch } from './inference-messages.js';
import type { SharedFlag } from './shared-flag.js';

/**
 * Whether tables of the batch would serve anything: they always do where they route. `resident` is raised while every
 * expert has a slot, `rest` while prediction rests.
 */
export function wantsTables({ routingK }: PromptBatch, resident: SharedFlag, rest: SharedFlag): boolean {
  return routingK > 0 || !(resident.raised || rest.raised);
}
