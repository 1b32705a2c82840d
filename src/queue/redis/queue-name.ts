/** Names a queue so that only workers that give the same answers share it. */

import { createHash } from 'node:crypto';
import type { SizedConfig } from '../../config/engine-config.js';
import type { RoutingMode } from '../../config/engine-options.js';
import { SidaError } from '../../errors.js';
import type { JobRequest, ModelInfo } from '../../protocol/engine-messages.js';

/** It increases whenever jobs, results or keys change their form or meaning. */
export const PROTOCOL = 14;

/** The first part of every key. The braces keep all keys on one node of a Redis Cluster. */
export const KEY_PREFIX = '{sida}';

/** The options that decide an answer beside the model. */
export type AnswerSettings = Pick<SizedConfig, 'activations' | 'kv' | 'device' | 'routing' | 'routingK'>;

export function queueNameOf(
  { fingerprint, predictor }: Pick<ModelInfo, 'fingerprint' | 'predictor'>,
  { activations, kv, device, routing, routingK }: AnswerSettings,
): string {
  // Where routers decide, the predictor changes no answer: `refuseTables` refuses requests that tables would route.
  const tables = routing === 'predicted' ? [predictor.name, predictor.fingerprint] : null;
  const computed = JSON.stringify([fingerprint, activations, kv, device, routing, routingK, tables]);
  const hash = createHash('sha256').update(computed).digest('hex');
  return `v${PROTOCOL}-${hash.slice(0, 24)}`;
}

/** Throws cannot_run if tables would route the request, and the name of the queue does not say whose tables. */
export function refuseTables({ routing: wish }: JobRequest, routing: RoutingMode | undefined): void {
  if (wish?.mode !== 'predicted' || routing === 'predicted') return;
  const message =
    'The workers that share this queue in Redis may have different predictors, which would answer differently: ' +
    'start servers and workers with --routing predicted, so that those of one predictor share a queue';
  throw new SidaError({ code: 'cannot_run', message, param: 'routing' });
}
