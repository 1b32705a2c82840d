/** Looks at a model that a user has named. */
import { existsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { SidaError } from '../errors.js';
import { loadAddon } from '../native/addon.js';
import type { CheckpointInfo } from '../native/addon-types.js';

/** Throws checkpoint_invalid, which names what to give instead for a path that is no model. */
export function inspectModel(model: string): CheckpointInfo {
  const fault = faultOf(model);
  if (fault !== undefined) throw new SidaError({ code: 'checkpoint_invalid', message: `${model}: ${fault}` });
  return loadAddon().inspectCheckpoint(model);
}

function faultOf(model: string): string | undefined {
  if (!existsSync(model)) return 'no such file or directory';
  if (!statSync(model).isFile() || !/\.(json|safetensors|bin)$/.test(model)) return undefined;
  return `this is one file of a checkpoint; name its directory: ${dirname(model)}`;
}
