/** Selects the options that the engine process needs. */
import { existsSync } from 'node:fs';
import { ENGINE_OPTIONS } from '../config/engine-options.js';
import type { ServeOptions } from '../config/options.js';
import { UsageError } from '../config/resolve.js';
import { weightChoices } from '../config/weight-options.js';
import type { EngineConfig } from '../protocol/engine-messages.js';

/** Options of the model and its engine, which `sida worker` and `sida serve` share. */
export const ENGINE_OPTION_NAMES = [
  ...(Object.keys(ENGINE_OPTIONS) as (keyof typeof ENGINE_OPTIONS)[]),
  'maxInputBytes',
] as const satisfies (keyof ServeOptions)[];

export type EngineOptions = Pick<ServeOptions, (typeof ENGINE_OPTION_NAMES)[number]>;

/** Throws UsageError when a file that an option names does not exist. */
export function engineConfig(options: EngineOptions): EngineConfig {
  const { predictor } = options;
  // A predictor that is damaged, or goes away later, only makes the server slower; a wrong path is a mistake.
  if (!['auto', 'none'].includes(predictor) && !existsSync(predictor)) {
    throw new UsageError(
      `The "--predictor" option names ${JSON.stringify(predictor)}, which does not exist: name a directory of \`sida train\`, auto or none`,
    );
  }
  return {
    model: options.model,
    packDir: options.packDir,
    checkTensors: options.checkTensors === 'all',
    ...weightChoices(options),
    memoryBudget: options.memoryBudget,
    hostBudget: options.hostBudget,
    device: options.device,
    threads: options.threads,
    policy: options.policy,
    predictor: options.predictor,
    hashFunction: options.hashFunction,
    governor: options.governor,
    routing: options.routing,
    routingK: options.routingK ?? null,
    activations: options.activations,
    lookahead: options.lookahead,
    lookAheadLayers: options.lookAheadLayers,
    maxBatchTokens: options.maxBatchTokens,
    kvTokens: options.kvTokens,
    kv: options.kv,
    kvWindows: options.kvWindows,
    prefixCache: options.prefixCache,
    batchWaitMs: options.batchWait,
    maxInputBytes: options.maxInputBytes,
    linkBandwidth: options.linkBandwidth,
    linkLatencyMs: options.linkLatency,
    readDepth: options.readDepth,
  };
}
