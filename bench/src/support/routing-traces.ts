/** Routing traces for scripts that replay them: recorded ones, and our own model's. */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { BUNDLED_SST2, MINI_DIRECTORY } from './paths.js';
import { sida } from './processes.js';

/** The CSV files of a directory by name; says so where there are none. */
export function recordedTraces(directory: string | undefined): { name: string; file: string }[] {
  const files = directory !== undefined && existsSync(directory) ? readdirSync(directory) : [];
  const recorded = files.filter((file) => /\.csv(\.gz)?$/.test(file)).sort();
  if (recorded.length === 0) {
    console.error(`SKIPPED: the recorded traces; ${directory ?? '--traces'} holds no CSV files`);
  }
  return recorded.map((file) => ({ name: file.replace(/\.csv(\.gz)?$/, ''), file: join(directory!, file) }));
}

/** Directory of switch-mini's routing of SST-2's validation set, made in `folder`. */
export async function tracedSst2(folder: string): Promise<string> {
  const out = join(folder, 'trace');
  const data = ['--data', BUNDLED_SST2, '--template', 'sst2 sentence: {text}'];
  const pack = ['--pack-dir', join(folder, 'packs')];
  const args = ['trace', MINI_DIRECTORY, ...data, '--max-new-tokens', '1', '--out', out, ...pack];
  await sida(args, { showErrors: true });
  return out;
}
