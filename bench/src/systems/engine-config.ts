/** `sida serve`'s options as the engine gets them. */
import { engineConfig as configOf, type EngineConfig } from '../../../dist/config/engine-config.js';
import { resolveServeOptions } from '../../../dist/config/resolve.js';

export function engineConfig(flags: Record<string, string>): EngineConfig {
  return configOf(resolveServeOptions({ flags, env: {} }));
}
