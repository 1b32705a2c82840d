// A tokenizer whose regular expressions backtrack for ever: refused at the start, or at the text that shows it.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, expect } from 'vitest';
import { MINI, metricsOf, ServerProcess, sst2 } from '../support/server-process.js';
import { writeTiny } from '../support/tiny-checkpoint.js';
import { sida } from './checkpoints/command-line.js';
import { TOKENIZER } from './checkpoints/served.js';
import { fault } from './fault.js';
import { percentile } from './subject.js';

const root = mkdtempSync(join(tmpdir(), 'sida-regex-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const split = (pattern: string) => ({ type: 'Split', pattern: { Regex: pattern }, behavior: 'Isolated' });
const replace = (pattern: string) => ({ type: 'Replace', pattern: { Regex: pattern }, content: 'x' });

/** A tiny model whose tokenizer has `change`. */
function modelWith(name: string, tokenizer: object): string {
  const directory = join(root, name);
  writeTiny(directory);
  writeFileSync(join(directory, 'tokenizer.json'), JSON.stringify(tokenizer));
  return directory;
}

const AT_START: [what: string, change: object][] = [
  ['a pre-tokenizer', { pre_tokenizer: { type: 'Sequence', pretokenizers: [split('(a+)+$')] } }],
  ['a normalizer', { normalizer: { type: 'Sequence', normalizers: [replace('(\\w+\\s?)+$')] } }],
  ['blanks', { normalizer: replace('(\\s+)+\\S\\d$') }],
  ['a decoder', { decoder: { type: 'Sequence', decoders: [replace('(a+)+$')] } }],
];

fault('F45', 'regular expressions that hang the start', async (report) => {
  const sound = await sida(
    ['serve', '--model', modelWith('warm', { ...TOKENIZER, model: {} }), '--port', '0'],
    join(root, 'peak'),
  );
  expect(sound.code, sound.stderr).toBe(4);
  for (const [what, change] of AT_START) {
    const directory = modelWith(what.replaceAll(' ', '-'), { ...TOKENIZER, ...change });
    const ended = await sida(['serve', '--model', directory, '--port', '0'], join(root, 'peak'));
    expect(ended.code, `${what}: ${ended.stderr}`).toBe(4);
    expect(ended.lines, ended.stderr).toHaveLength(1);
    expect(ended.lines[0]).toContain('tokenizer.json');
    report.note(
      `${what}: ${((ended.seconds - sound.seconds) * 1_000).toFixed(0)} ms longer than another refusal`,
    );
    const quiet = { what: 'the time of another refusal', value: sound.seconds, times: 5 };
    report.withinTime(`${what}, beyond another refusal,`, ended.seconds - sound.seconds, 1, 's', quiet);
  }
});

fault('F45', 'a regular expression that hangs at one text', async (report) => {
  const file = JSON.parse(readFileSync(join(MINI, 'tokenizer.json'), 'utf8'));
  file.normalizer = {
    type: 'Sequence',
    normalizers: [file.normalizer, replace('(?:(?:qz)+)+!')].filter((each) => each !== null),
  };
  const model = join(root, 'mini');
  cpSync(MINI, model, { recursive: true });
  writeFileSync(join(model, 'tokenizer.json'), JSON.stringify(file));
  const server = await ServerProcess.start([
    '--model',
    model,
    '--memory-budget',
    '100%',
    '--log-level',
    'warn',
    '--pack-dir',
    join(root, 'packs'),
  ]);
  const classify = (input: string) => server.post('/v1/classify', { task: 'sst2', input });
  const sentences = sst2().slice(0, 20);
  const right: unknown[] = [];
  for (const { text } of sentences) right.push((await classify(text)).body.data);

  const quiet: number[] = [];
  const ask = async (latencies: number[]) => {
    for (const [at, { text }] of sentences.entries()) {
      const started = performance.now();
      const { status, body } = await classify(text);
      latencies.push(performance.now() - started);
      expect([status, body.data]).toEqual([200, right[at]]);
    }
  };
  await ask(quiet);
  const hanging = Array.from({ length: 3 }, (_, at) => classify(`a ${'qz'.repeat(200 + at)}?`));
  await delay(100);
  const beside: number[] = [];
  await ask(beside);
  for (const { status, body } of await Promise.all(hanging)) {
    expect([status, body.error.code]).toEqual([422, 'cannot_run']);
    expect(body.error.details).toMatchObject({ bytes: expect.any(Number), limit_ms: expect.any(Number) });
  }
  await delay(1_500);
  const metrics = await metricsOf(server);
  expect(metrics('sida_engine_restarts_total')).toBe(0);
  expect(metrics('sida_tokenizer_ended_total')).toBe(3);
  await ask([]);
  report.note(
    `3 texts refused with 422, 3 threads replaced; others right, the slowest after ${Math.max(...beside).toFixed(0)} ms, usually ${percentile(quiet, 0.5).toFixed(0)} ms`,
  );
  expect(await server.stop()).toBe(0);
});
