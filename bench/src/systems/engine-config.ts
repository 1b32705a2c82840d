/** `sida serve`'s options as the engine gets them. */
import { engineConfig as configOf, type SizedConfig } from '../../../dist/config/engine-config.js';
import { resolveServeOptions } from '../../../dist/config/resolve.js';

/** Activations and KV cache are f32, and a KV cache of 1.5 passes is the same for all models, as in older results. */
export function engineConfig(flags: Record<string, string>): SizedConfig {
  const { context: _, ...config } = configOf(resolveServeOptions({ flags, env: {} }));
  return { ...config, activations: 'f32', kv: 'f32', kvTokens: Math.ceil(1.5 * config.maxBatchTokens) };
}
