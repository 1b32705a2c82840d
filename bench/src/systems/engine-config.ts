/** `sida serve`'s options as the engine gets them. */
import { resolveServeOptions } from '../../../dist/config/resolve.js';
import type { EngineConfig } from '../../../dist/protocol/engine-messages.js';

export function engineConfig(flags: Record<string, string>): EngineConfig {
  const { batchWait, linkLatency, checkTensors, ...options } = resolveServeOptions({
    flags,
    env: {},
  });
  return {
    ...options,
    batchWaitMs: batchWait,
    linkLatencyMs: linkLatency,
    checkTensors: checkTensors === 'all',
  };
}
