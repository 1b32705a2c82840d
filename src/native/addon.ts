import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { NativeAddon } from './addon-types.js';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');

const require = createRequire(import.meta.url);

/** Paths of the addon in order of preference: built here, then prebuilt. SIDA_ADDON replaces them. */
function candidates(): string[] {
  const override = process.env.SIDA_ADDON;
  if (override !== undefined && override !== '') return [resolve(override)];
  const built = ['Release', 'Debug'].map((kind) => join(root, 'build', 'addon', kind, 'sida.node'));
  try {
    return [...built, require.resolve(`@sida/addon-${process.platform}-${process.arch}`)];
  } catch {
    return built;
  }
}

let loaded: NativeAddon | undefined;

/** Loads the native addon once. Throws an Error that lists the paths, the failure of each, and the command to run. */
export function loadAddon(): NativeAddon {
  if (loaded !== undefined) return loaded;
  const tried: string[] = [];
  for (const path of candidates()) {
    if (!existsSync(path)) {
      tried.push(`  ${path}: no such file`);
      continue;
    }
    try {
      loaded = require(path) as NativeAddon;
      return loaded;
    } catch (error) {
      tried.push(`  ${path}: ${(error as Error).message}`);
    }
  }
  throw new Error(
    [
      `The native addon could not be loaded on ${process.platform}-${process.arch}, Node ${process.version}.`,
      'Looked for:',
      ...tried,
      'Build it with `npm run build:native` (needs cmake >= 3.20 and a C++20 compiler such as g++ >= 11).',
    ].join('\n'),
  );
}
