/** The name of a queue: only workers that would give the same answers share one. */
import { createHash } from 'node:crypto';
import type { EngineConfig, ModelInfo } from '../../protocol/engine-messages.js';

/** Counts up whenever jobs, results or the ledger's keys change their form or meaning. */
export const PROTOCOL = 3;

/** What every key begins with. */
export const KEY_PREFIX = 'sida';

/** In braces, which keep all keys of a queue in one slot of a Redis cluster. */
export function queueNameOf(
  { fingerprint, predictor }: Pick<ModelInfo, 'fingerprint' | 'predictor'>,
  {
    activations,
    device,
    routing,
    routingK,
  }: Pick<EngineConfig, 'activations' | 'device' | 'routing' | 'routingK'>,
): string {
  // In exact mode a predictor changes no answer.
  const tables = routing === 'predicted' ? predictor.name : null;
  const computed = JSON.stringify([fingerprint, activations, device, routing, routingK, tables]);
  const hash = createHash('sha256').update(computed).digest('hex');
  return `{v${PROTOCOL}-${hash.slice(0, 24)}}`;
}
