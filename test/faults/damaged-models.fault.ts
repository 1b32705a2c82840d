// The corpus of bad models: the command line refuses each in one clear line, at once, or takes it where it is sound.
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { brotliDecompressSync } from 'node:zlib';
import { afterAll, beforeAll, expect } from 'vitest';
import { plant } from '../support/safetensors-edit.js';
import { MINI, REPO } from '../support/server-process.js';
import { writeTiny } from '../support/tiny-checkpoint.js';
import { DIRECTORIES } from './checkpoints/directories.js';
import { GGUF, GGUF_FILES } from './checkpoints/gguf.js';
import { HEADERS } from './checkpoints/headers.js';
import { type Case, checkRefusal, type Ended, judge, sida } from './checkpoints/judge.js';
import { OVERSIZED_CHECKPOINTS, OVERSIZED_PACKS, OVERSIZED_PREDICTORS } from './checkpoints/oversized.js';
import { SERVED, TOKENIZER } from './checkpoints/served.js';
import { UNUSUAL_IN_CHECKPOINT, UNUSUAL_IN_PACK, UNUSUAL_IN_PREDICTOR } from './checkpoints/unusual-files.js';
import { fault } from './fault.js';

const root = mkdtempSync(join(tmpdir(), 'sida-damaged-'));
const at = (...names: string[]) => join(root, ...names);
afterAll(() => rmSync(root, { recursive: true, force: true }));
const [SOUND, PACK, FILE] = [at('sound'), at('sound-pack'), 'model.safetensors'];

type Run = (directory: string) => Promise<Ended>;

const convert: Run = (directory) => sida(['convert', directory, '--out', at('pack')], at('peak'));

/** Ends the server as soon as it is ready. */
const serve: Run = (directory) => {
  const flags = ['--memory-budget', '100%', '--port', '0', '--predictor', 'none'];
  return sida(['serve', '--model', directory, ...flags], at('peak'), (child, output) => {
    if (!child.killed && / serves .* at http/.test(output)) child.kill('SIGTERM');
  });
};

/** A conversion reads what a server would read later, such as sida.json, and copies it as it is. */
const convertAndServe: Run = async (directory) => {
  const ended = await convert(directory);
  return ended.code === 0 ? serve(at('pack')) : ended;
};

/** Nothing of a file elsewhere may reach a pack, finished or not. */
const convertClosed: Run = async (directory) => {
  const ended = await convert(directory);
  const shadow = readFileSync('/etc/shadow');
  for (const made of ['pack', 'pack.partial'].map((name) => at(name)).filter(existsSync))
    for (const name of readdirSync(made)) expect(readFileSync(join(made, name))).not.toEqual(shadow);
  return ended;
};

const evaluate: Run = (predictor) => {
  const flags = ['--model', MINI, '--pack-dir', at('packs'), '--predictor', predictor];
  const data = ['--data', at('data.jsonl'), '--template', '{text}', '--limit', '1'];
  return sida(['eval', ...flags, ...data], at('peak'));
};

beforeAll(async () => {
  writeTiny(SOUND);
  // Zeros alone read the same with their bytes swapped.
  plant(join(SOUND, FILE), 'encoder.final_layer_norm.weight', 0, 1);
  writeFileSync(join(SOUND, 'tokenizer.json'), JSON.stringify(TOKENIZER));
  expect(await sida(['convert', SOUND, '--out', PACK], at('peak'))).toMatchObject({ code: 0 });
  writeFileSync(at('data.jsonl'), `${JSON.stringify({ text: 'a fine film '.repeat(50) })}\n`);
  const gguf = readFileSync(join(REPO, 'test/fixtures/gguf/olmoe.gguf.br'));
  mkdirSync(at('gguf'));
  writeFileSync(at('gguf', GGUF), brotliDecompressSync(gguf));
});

const PREDICTOR = join(MINI, 'predictor');
// biome-ignore format: a table
const CORPUS: [what: string, cases: Case[], model: string, run: Run][] = [
  ['damaged safetensors files', HEADERS, SOUND, convert],
  ['indexes and configs that lie', DIRECTORIES, SOUND, convert],
  ['damaged GGUF files', GGUF_FILES, at('gguf'), (directory) => convert(join(directory, GGUF))],
  ['damaged tokenizers and packs', SERVED, PACK, serve],
  ['oversized checkpoints', OVERSIZED_CHECKPOINTS, SOUND, convertAndServe],
  ['oversized packs', OVERSIZED_PACKS, PACK, serve],
  ['oversized predictors', OVERSIZED_PREDICTORS, PREDICTOR, evaluate],
  ['unusual files in a checkpoint', UNUSUAL_IN_CHECKPOINT, SOUND, convertClosed],
  ['unusual files in a pack', UNUSUAL_IN_PACK, PACK, serve],
  ['unusual files in a predictor', UNUSUAL_IN_PREDICTOR, PREDICTOR, evaluate],
];

for (const [what, cases, model, run] of CORPUS)
  fault(what, (report) => judge(cases, report, { root, model, run }));

fault('a file that changes while it is read', async (report) => {
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
      change(join(model, FILE));
    });
    checkRefusal(ended, [FILE, 'changed while it was read']);
    rmSync(model, { recursive: true });
    rmSync(`${at('changed-pack')}.partial`, { recursive: true, force: true });
    report.note(`${what}: refused with exit code 4`);
  }
});
