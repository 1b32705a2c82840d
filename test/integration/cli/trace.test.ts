// `sida trace` on the bundled model. An interrupted and resumed run gives the same trace as an uninterrupted one.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, expect, it } from 'vitest';
import { loadAddon } from '../../../src/native/addon.js';
import { readMeta, readTrace } from '../../../src/trace/trace-file.js';
import type { StackRecord } from '../../../src/trace/trace-record.js';
import { MINI, REPO, sst2 } from '../../support/server-process.js';

const root = mkdtempSync(join(tmpdir(), 'sida-trace-cli-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const data = join(root, 'data.jsonl');
writeFileSync(
  data,
  sst2()
    .slice(0, 400)
    .map((row) => JSON.stringify(row))
    .join('\n'),
);

const args = (out: string, more: string[] = []) => [
  join(REPO, 'bundle/cli/main.js'),
  'trace',
  MINI,
  '--data',
  data,
  '--template',
  'sst2 sentence: {text}',
  '--out',
  join(root, out),
  '--pack-dir',
  join(root, 'packs'),
  ...more,
];

it('records the same tokens and routing with and without an interruption, at any budget', async () => {
  const whole = spawnSync(process.execPath, args('whole', ['--memory-budget', '100%']), { encoding: 'utf8' });
  expect(whole.status, whole.stderr).toBe(0);
  expect(whole.stdout).toContain('400 lines');

  const child = spawn(process.execPath, args('cut', ['--memory-budget', '20%']), { stdio: 'ignore' });
  const exited = new Promise<number | null>((resolve) => child.once('exit', resolve));
  const records = join(root, 'cut', 'records.bin');
  while (!existsSync(records) || statSync(records).size === 0) await delay(5);
  child.kill('SIGTERM');
  expect(await exited).toBe(null);
  expect((await readMeta(join(root, 'cut'))).complete).toBe(false);
  const again = spawnSync(process.execPath, args('cut', ['--memory-budget', '20%']), { encoding: 'utf8' });
  expect(again.status, again.stderr).toBe(0);
  expect(readFileSync(records).equals(readFileSync(join(root, 'whole', 'records.bin')))).toBe(true);

  let count = 0;
  for await (const { line, input, stacks } of readTrace(join(root, 'whole'))) {
    const [encoder, decoder] = stacks as [StackRecord, StackRecord];
    expect(input).toBe(encoder.tokens.length);
    expect(line).toBe(count++);
    expect(encoder.tokens.at(-1)).toBe(1);
    expect(encoder.experts.length).toBe(2 * encoder.tokens.length * 30);
    expect(decoder.tokens[0]).toBe(0);
    expect(encoder.logits[0]).toBeGreaterThanOrEqual(encoder.logits[1]!);
  }
  expect(count).toBe(400);
});

it('adds the embedding to a trace made without one, and keeps its records', () => {
  const out = join(root, 'whole');
  const embedding = join(out, 'embedding.safetensors');
  const [before, records] = [readFileSync(embedding), readFileSync(join(out, 'records.bin'))];
  rmSync(embedding);
  const again = spawnSync(process.execPath, args('whole'), { encoding: 'utf8' });
  expect(again.status, again.stderr).toBe(0);
  expect(readFileSync(embedding).equals(before)).toBe(true);
  expect(readFileSync(join(out, 'records.bin')).equals(records)).toBe(true);
  const { TokenEmbedding } = loadAddon();
  expect(new TokenEmbedding({ file: embedding })).toMatchObject({ vocab: 8000, dModel: 128 });
});

it('joins the texts of a field from another file as if the lines held them', async () => {
  const rows = sst2().slice(0, 5);
  writeFileSync(join(root, 'short.jsonl'), rows.map((row) => JSON.stringify(row)).join('\n'));
  const passages = rows.map(({ text }, i) => JSON.stringify({ passage: i, text }));
  writeFileSync(join(root, 'passages.jsonl'), passages.join('\n'));
  writeFileSync(join(root, 'keys.jsonl'), rows.map((_, i) => JSON.stringify({ passage: i })).join('\n'));
  const run = (out: string, file: string, template: string, more: string[]) => {
    const given = args(out, more).map((arg) =>
      arg === data ? join(root, file) : arg === 'sst2 sentence: {text}' ? template : arg,
    );
    const { status, stderr } = spawnSync(process.execPath, given, { encoding: 'utf8' });
    expect(status, stderr).toBe(0);
    return readFileSync(join(root, out, 'records.bin'));
  };
  const joins = ['--join', `passage=${join(root, 'passages.jsonl')}`];
  const joined = run('joined', 'keys.jsonl', 'sst2 sentence: {passage}', joins);
  expect(joined.equals(run('plain', 'short.jsonl', 'sst2 sentence: {text}', []))).toBe(true);
  expect((await readMeta(join(root, 'joined'))).joins).toEqual({ passage: 'passages.jsonl' });
});

it('continues a trace only when settings and recorded lines are unchanged', () => {
  const file = join(root, 'changing.jsonl');
  const run = (more: string[] = []) =>
    spawnSync(
      process.execPath,
      args('changing', more).map((arg) => (arg === data ? file : arg)),
      { encoding: 'utf8' },
    );
  writeFileSync(file, '{"text":"a"}\n{"text":"b"}\n');
  expect(run().status).toBe(0);
  const top = run(['--top', '4']);
  expect([top.status, top.stderr]).toEqual([1, expect.stringContaining('top is 30 there and 4 here')]);
  writeFileSync(file, '{"text":"a"}\n{"text":"c"}\n{"text":"d"}\n');
  expect(run().stderr).toMatch(/changing\.jsonl has another line 2/);
  writeFileSync(file, '{"text":"a"}\n');
  expect(run().stderr).toMatch(/changing\.jsonl has 1 inputs/);
  writeFileSync(file, '{"text":"a"}\n{"text":"b"}\n{"text":"c"}\n');
  expect(run()).toMatchObject({ status: 0, stdout: expect.stringContaining('3 lines') });
});

it('names the line that lacks a field of the template', () => {
  writeFileSync(join(root, 'bad.jsonl'), '{"text":"a"}\n{"txt":"b"}\n');
  const run = spawnSync(
    process.execPath,
    args('bad').map((arg) => (arg === data ? join(root, 'bad.jsonl') : arg)),
    { encoding: 'utf8' },
  );
  expect(run.status).toBe(1);
  expect(run.stderr).toMatch(/bad\.jsonl, line 2: .*text/);
});

it('refuses a line that is too long instead of truncating it', () => {
  const run = spawnSync(process.execPath, args('long', ['--max-batch-tokens', '16']), { encoding: 'utf8' });
  expect(run.status).toBe(1);
  expect(run.stderr).toMatch(/line \d+ has \d+ tokens, the limit is 16/);
});
