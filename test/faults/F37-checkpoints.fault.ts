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
import { SERVED_CASES, TOKENIZER, writeTokenizer } from './checkpoints/served.js';
import { type FaultReport, fault } from './fault.js';

const MIB = 1024 ** 2;
/** Beyond a sound model. */
const MOST_SECONDS = 1;
/** A line with file, tensor, what, expected, found and hint fits. */
const LONGEST_LINE = 1_000;

const root = mkdtempSync(join(tmpdir(), 'sida-checkpoints-'));
const at = (name: string) => join(root, name);
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

/** A directory with `model` in it, harmed. */
function harmed({ harm }: CheckpointCase, model: string): string {
  const directory = at('model');
  rmSync(directory, { recursive: true, force: true });
  rmSync(at('pack'), { recursive: true, force: true });
  cpSync(model, directory, { recursive: true });
  harm(directory);
  return directory;
}

function checkRefusal({ code, lines, stderr }: Ended, says: NonNullable<CheckpointCase['says']>): void {
  expect(code, stderr).toBe(4);
  expect(lines, stderr).toHaveLength(1);
  const line = lines[0]!;
  expect(line.length).toBeLessThan(LONGEST_LINE);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: those must not be there
  expect(line).not.toMatch(/[\u0000-\u001f\u202a-\u202e]/);
  for (const part of says) {
    if (typeof part === 'string') expect(line).toContain(part);
    else expect(line).toMatch(part);
  }
}

/** Runs every case; the limits are what it takes beyond a sound model. */
async function all(
  cases: CheckpointCase[],
  report: FaultReport,
  model: string,
  run: (directory: string) => Promise<Ended>,
): Promise<void> {
  const ofSound = () => {
    rmSync(at('pack'), { recursive: true, force: true });
    return run(model);
  };
  const sound = await ofSound();
  let slowest = { what: '', value: 0 };
  let largest = { what: '', value: 0 };
  for (const each of cases) {
    const ended = await run(harmed(each, model));
    const what = `${each.item}: ${each.what}`;
    if (each.says === undefined)
      expect([what, ended.code, ended.stderr]).toMatchObject([what, 0, expect.anything()]);
    else {
      try {
        checkRefusal(ended, each.says);
      } catch (error) {
        throw new Error(what, { cause: error });
      }
    }
    let seconds = ended.seconds - sound.seconds;
    const bytes = ended.peakBytes - sound.peakBytes;
    // What is slow is so again, beside a sound model; a machine that others use is slow by turns.
    if (seconds > MOST_SECONDS) {
      const again = await run(harmed(each, model));
      seconds = Math.min(seconds, again.seconds - (await ofSound()).seconds);
    }
    if (seconds > slowest.value) slowest = { what, value: seconds };
    if (bytes > largest.value) largest = { what, value: bytes };
  }
  const refused = cases.filter(({ says }) => says !== undefined).length;
  report.note(`${refused} refused in one line with exit code 4, ${cases.length - refused} taken`);
  const quiet = { what: 'the time of a sound model', value: sound.seconds, times: 3 };
  report.withinTime(
    `beyond a sound model at most (${slowest.what})`,
    slowest.value,
    MOST_SECONDS,
    's',
    quiet,
  );
  report.atMost(`and (${largest.what})`, largest.value / MIB, 64, 'MiB');
}

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

/** Ends the server as soon as it is ready. */
const serve = (directory: string) => {
  const flags = [
    'serve',
    '--model',
    directory,
    '--memory-budget',
    '100%',
    '--port',
    '0',
    '--predictor',
    'none',
  ];
  let told = false;
  return sida(flags, at('peak'), (child, output) => {
    if (told || !/ serves .* at http/.test(output)) return;
    told = true;
    child.kill('SIGTERM');
  });
};

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
