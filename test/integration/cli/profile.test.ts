// `sida serve --profile`: compares the events of a real server with its metrics.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import type { TraceFile } from '../../../src/profile/chrome-trace.js';
import { classifyAll, MINI, metricsOf, REPO, ServerProcess, sst2 } from '../../support/server-process.js';
import { traceSpans } from '../../support/trace-spans.js';

const folder = mkdtempSync(join(tmpdir(), 'sida-profile-'));
afterAll(() => rmSync(folder, { recursive: true }));

const read = (file: string) => JSON.parse(readFileSync(file, 'utf8')) as TraceFile;
const passesOf = (trace: TraceFile) => traceSpans(trace).filter(({ category }) => category === 'pass').length;
const sum = (numbers: number[]) => numbers.reduce((total, each) => total + each, 0);
const sentences = sst2().slice(0, 64);
const serve = (...args: string[]) =>
  ServerProcess.start(['--model', MINI, '--memory-budget', '25%', '--log-level', 'error', ...args]);

describe('a profile of the whole run', () => {
  it('nests, and accounts for every byte moved', async () => {
    const file = join(folder, 'whole.json');
    const server = await serve('--profile', file);
    await classifyAll(server, sentences);
    await server.post('/v1/completions', { prompt: 'sst2 sentence: good', max_tokens: 4 });
    // The engine sends its counters some time after the last pass.
    let moved = -1;
    await server.until(async () => {
      const metric = await metricsOf(server);
      const before = moved;
      moved = metric('sida_experts_moved_bytes_total');
      await new Promise((resolve) => setTimeout(resolve, 1500));
      return moved > 0 && moved === before;
    });
    expect(existsSync(file)).toBe(false);
    expect(await server.stop()).toBe(0);
    expect(server.output).toContain(`in ${file}, none dropped`);

    const trace = read(file);
    expect(trace.otherData.dropped).toBe(0);
    const spans = traceSpans(trace);
    const threads = [...new Set(spans.map(({ thread }) => thread))];
    // The main thread has events only if a batch had to wait.
    expect(threads.filter((name) => name !== 'main' && name !== 'transfers').sort()).toEqual([
      'hash building',
      'inference',
      'tokenizer',
    ]);
    expect(threads).toContain('transfers');
    // Every request except the completion needs an encoder pass and a pass over its labels.
    expect(passesOf(trace)).toBeGreaterThanOrEqual(3);
    for (const { name, parent, begin, end } of spans) {
      expect(end).toBeGreaterThanOrEqual(begin);
      if (name === 'experts') expect(parent?.name).toBe('moe');
      if (name === 'encoder pass') expect(parent?.name).toBe('batch');
    }
    // Bytes that a prefetch moves after the last pass are counted with the next pass.
    const transferred = sum(
      spans.filter(({ category }) => category === 'transfer').map(({ args }) => args.bytes ?? 0),
    );
    expect(transferred - moved).toBeGreaterThanOrEqual(0);
    expect(transferred - moved).toBeLessThanOrEqual(transferred / 10);
    expect(spans.map(({ name }) => name)).toEqual(
      expect.arrayContaining([
        'tokenize',
        'build table',
        'predict',
        'plan',
        'encoder pass',
        'decoder pass',
        'step',
        'emit',
      ]),
    );
  });

  it('is refused at the start when it cannot be written', () => {
    const file = join(folder, 'none', 'p.json');
    const args = [join(REPO, 'bundle/cli/main.js'), 'serve', '--model', MINI, '--profile', file];
    const { status, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
    expect(status).toBe(2);
    expect(stderr).toContain(`The "--profile" option is ${file}, which cannot be written`);
  });
});

describe('a profile of a moment', () => {
  it('returns the events of that time, and refuses a second capture', async () => {
    const server = await serve();
    const capture = (seconds: number) => server.post('/admin/profile', { seconds });
    let ended = false;
    const first = capture(2).finally(() => {
      ended = true;
    });
    // Try again until the first capture ends, which may take longer on a busy machine.
    const refused: string[] = [];
    while (!ended) {
      await classifyAll(server, sentences.slice(0, 32));
      const { body } = await capture(0.001);
      if (body.error !== undefined) refused.push(body.error.code);
    }
    expect(new Set(refused)).toEqual(new Set(['cannot_run']));
    const answer = await first;
    expect(answer.status).toBe(200);
    expect(passesOf(answer.body as TraceFile)).toBeGreaterThanOrEqual(2);
    expect((await capture(0.001)).status).toBe(200);
    expect((await server.post('/admin/profile', { seconds: 61 })).status).toBe(400);
    await server.stop();
  });

  it('ends when its client disconnects', async () => {
    const server = await serve();
    const gone = new AbortController();
    const request = fetch(`${server.url}/admin/profile`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"seconds":50}',
      signal: gone.signal,
    });
    await new Promise((resolve) => setTimeout(resolve, 300));
    gone.abort();
    await expect(request).rejects.toThrow();
    await server.until(async () => (await server.post('/admin/profile', { seconds: 0.01 })).status === 200);
    await server.stop();
  });
});
