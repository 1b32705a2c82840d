// Routing traces for benches that replay them: recorded ones, and our own model's.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

/** Standard output of `sida …`. */
export function sida(...args) {
  const child = spawnSync('node', ['dist/cli/main.js', ...args], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
    maxBuffer: 1 << 28,
  });
  if (child.status !== 0) throw new Error(`sida ${args[0]} ended with ${child.status ?? child.signal}`);
  return child.stdout;
}

/** The CSV files of a directory by name; says so where there are none. */
export function recordedTraces(directory) {
  const files = existsSync(directory ?? '') ? readdirSync(directory) : [];
  const recorded = files.filter((file) => /\.csv(\.gz)?$/.test(file)).sort();
  if (recorded.length === 0) {
    console.error(`SKIPPED: the recorded traces; ${directory ?? '--traces'} holds no CSV files`);
  }
  return recorded.map((file) => ({ name: file.replace(/\.csv(\.gz)?$/, ''), file: join(directory, file) }));
}

/** Directory of the bundled model's routing of SST-2's validation set, made in `folder`. */
export function tracedSst2(folder) {
  const data = ['--data', 'test/data/sst2-validation.jsonl', '--template', 'sst2 sentence: {text}'];
  const out = join(folder, 'trace');
  const pack = ['--pack-dir', join(folder, 'packs')];
  sida('trace', 'models/switch-mini', ...data, '--max-new-tokens', '1', '--out', out, ...pack);
  return out;
}
