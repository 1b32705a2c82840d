// The corpus of bad models: the command line refuses each in one clear line, at once, or takes it where it is sound.
import { cpSync, mkdtempSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect } from 'vitest';
import { plant } from '../support/safetensors-edit.js';
import { MINI } from '../support/server-process.js';
import { writeTiny } from '../support/tiny-checkpoint.js';
import type { CheckpointCase } from './checkpoints/case.js';
import { type Ended, sida } from './checkpoints/command-line.js';
import { DIRECTORY_CASES } from './checkpoints/directories.js';
import { HEADER_CASES } from './checkpoints/headers.js';
import { checkRefusal, judgeCases, serveUntilReady } from './checkpoints/refusals.js';
import { SERVED_CASES, TOKENIZER, writeTokenizer } from './checkpoints/served.js';
import { type FaultReport, fault } from './fault.js';

const root = mkdtempSync(join(tmpdir(), 'sida-checkpoints-'));
const at = (name: string) => join(root, name);
const all = (
  cases: CheckpointCase[],
  report: FaultReport,
  model: string,
  run: (directory: string) => Promise<Ended>,
) => judgeCases(cases, report, { root, model, run });
const soundPack = at('sound-pack');
beforeAll(async () => {
  writeTiny(at('sound'));
  // Zeros alone read the same with their bytes swapped.
  plant(join(at('sound'), 'model.safetensors'), 'encoder.final_layer_norm.weight', 0, 1);
  writeFileSync(join(at('sound'), 'tokenizer.json'), JSON.stringify(TOKENIZER));
  expect(await sida(['convert', at('sound'), '--out', soundPack], at('peak'))).toMatchObject({ code: 0 });
  writeTokenizer(soundPack, TOKENIZER);
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

const convert = (directory: string) => sida(['convert', directory, '--out', at('pack')], at('peak'));

const MILLION = 33;

fault('F37', 'damaged safetensors files (items 1 to 39)', (report) => {
  const cases = HEADER_CASES.filter(({ item }) => item !== MILLION);
  return all(cases, report, at('sound'), convert);
});

// Apart: its header alone has 60 MB.
fault('F37', 'a million tensors (item 33)', (report) => {
  const cases = HEADER_CASES.filter(({ item }) => item === MILLION);
  return all(cases, report, at('sound'), convert);
});

fault('F37', 'indexes and configs that lie (items 40 and 41)', (report) =>
  all(DIRECTORY_CASES, report, at('sound'), convert),
);

const serve = serveUntilReady(at('peak'));

fault('F37', 'tokenizers and packs (items 32, 42 and 43)', (report) =>
  all(SERVED_CASES, report, soundPack, serve),
);

fault('F37', 'a file that changes while it is read (item 44)', async (report) => {
  for (const [what, change] of [
    ['cut', (path: string) => truncateSync(path, statSync(path).size / 2)],
    ['written to', (path: string) => writeFileSync(path, 'x', { flag: 'a' })],
  ] as const) {
    const model = at('changing');
    cpSync(MINI, model, { recursive: true });
    let changed = false;
    const args = ['convert', model, '--out', at('changed-pack')];
    const ended = await sida(args, at('peak'), (_, output) => {
      if (changed || !output.includes('Packing')) return;
      changed = true;
      change(join(model, 'model.safetensors'));
    });
    checkRefusal(ended, ['model.safetensors', 'changed while it was read']);
    rmSync(model, { recursive: true });
    rmSync(`${at('changed-pack')}.partial`, { recursive: true, force: true });
    report.note(`${what}: refused with exit code 4`);
  }
});
