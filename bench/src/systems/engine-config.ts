/** `sida serve`'s options as the engine gets them. */
import { type EngineConfig, engineConfig as configOf } from '../../../dist/config/engine-config.js';
import { resolveServeOptions } from '../../../dist/config/resolve.js';

export function engineConfig(flags: Record<string, string>): EngineConfig {
  return configOf(resolveServeOptions({ flags, env: {} }));
}
