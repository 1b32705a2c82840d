/** Names a queue so that only workers that give the same answers share it. */
import { createHash } from 'node:crypto';
import type { EngineConfig, ModelInfo } from '../../protocol/engine-messages.js';

/** Version of the ledger. It increases whenever jobs, results or keys change their form or meaning. */
export const PROTOCOL = 5;

/** The first part of every key. */
export const KEY_PREFIX = 'sida';

/** The options that decide an answer beside the model. */
export type AnswerSettings = Pick<EngineConfig, 'activations' | 'kv' | 'device' | 'routing' | 'routingK'>;

/** The braces make the name a hash tag, which keeps all keys of a queue in one slot of a Redis cluster. */
export function queueNameOf(
  { fingerprint, predictor }: Pick<ModelInfo, 'fingerprint' | 'predictor'>,
  { activations, kv, device, routing, routingK }: AnswerSettings,
): string {
  // In exact mode the predictor does not change answers, so the name leaves it out.
  const tables = routing === 'predicted' ? [predictor.name, predictor.fingerprint] : null;
  const computed = JSON.stringify([fingerprint, activations, kv, device, routing, routingK, tables]);
  const hash = createHash('sha256').update(computed).digest('hex');
  return `{v${PROTOCOL}-${hash.slice(0, 24)}}`;
}
