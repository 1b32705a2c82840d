// `sida serve --profile`: a real server's events, held against its own figures.
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import type { TraceFile } from '../../../src/profile/chrome-trace.js';
import { summarize } from '../../../src/profile/summary.js';
import { type Timeline, timelineOf } from '../../../src/profile/timeline.js';
import { classifyAll, MINI, metricsOf, REPO, ServerProcess, sst2 } from '../../support/server-process.js';

const folder = mkdtempSync(join(tmpdir(), 'sida-profile-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** Throws where events of a thread do not nest. */
const read = (text: string): Timeline => timelineOf(JSON.parse(text) as TraceFile);
const sentences = sst2().slice(0, 64);
const serve = (...args: string[]) =>
  ServerProcess.start(['--model', MINI, '--memory-budget', '25%', '--log-level', 'error', ...args]);

describe('a profile of the whole run', () => {
  it('nests, adds up, and tells of every byte that moved', async () => {
    const file = join(folder, 'whole.json');
    const server = await serve('--profile', file);
    await classifyAll(server, sentences);
    await server.post('/v1/completions', { prompt: 'sst2 sentence: good', max_tokens: 4 });
    // Counters are sent a while after the last pass.
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

    const timeline = read(readFileSync(file, 'utf8'));
    const names = timeline.lanes.map(({ name }) => name);
    expect(names.filter((name) => name !== 'transfers').sort()).toEqual([
      'hash building',
      'inference',
      'main',
    ]);
    expect(names).toContain('transfers');
    const summary = summarize(timeline);
    expect(summary.dropped).toBe(0);
    // Every request but the completion brings an encoder pass and one over its labels.
    expect(summary.passes.count).toBeGreaterThanOrEqual(3);
    const inPasses = summary.ops.reduce((sum, op) => sum + (op.shareOfPasses ?? 0), 0);
    expect(inPasses).toBeGreaterThan(0.999);
    expect(inPasses).toBeLessThan(1.001);
    for (const { name, parent, begin, end } of timeline.lanes.flatMap(({ spans }) => spans)) {
      expect(end).toBeGreaterThanOrEqual(begin);
      if (name === 'experts') expect(parent?.name).toBe('moe');
      if (name === 'encoder pass') expect(parent?.name).toBe('batch');
    }
    // What a prefetch moves after the last pass is counted with the next one.
    const difference = summary.transfers.bytes - moved;
    expect(difference).toBeGreaterThanOrEqual(0);
    expect(difference).toBeLessThanOrEqual(summary.transfers.bytes / 10);
    expect(summary.ops.map(({ name }) => name)).toEqual(
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

    const picture = join(folder, 'whole.svg');
    const printed = execFileSync(
      process.execPath,
      [join(REPO, 'dist/cli/main.js'), 'profile', file, '--svg', picture, '--json'],
      { encoding: 'utf8' },
    );
    expect(JSON.parse(printed)).toEqual(JSON.parse(JSON.stringify(summary)));
    expect(readFileSync(picture, 'utf8')).toContain('inference thread');
  });

  it('is written after --profile-seconds, and the server goes on', async () => {
    const file = join(folder, 'seconds.json');
    const server = await serve('--profile', file, '--profile-seconds', '1');
    await server.until(() => existsSync(file));
    const { about } = read(readFileSync(file, 'utf8'));
    expect(about.seconds).toBeGreaterThanOrEqual(0.9);
    const before = readFileSync(file, 'utf8');
    expect((await server.post('/v1/classify', { task: 'sst2', input: 'fine' })).status).toBe(200);
    expect(await server.stop()).toBe(0);
    expect(readFileSync(file, 'utf8')).toBe(before);
  });

  it('counts what finds no room', async () => {
    const file = join(folder, 'small.json');
    const server = await serve('--profile', file, '--profile-bytes', '64KiB');
    await classifyAll(server, sentences);
    expect(await server.stop()).toBe(0);
    const timeline = read(readFileSync(file, 'utf8'));
    expect(timeline.about.dropped).toBeGreaterThan(0);
    expect(server.output).toContain(`${timeline.about.dropped} dropped`);
  });

  it('is refused before anything starts where it cannot be written', () => {
    const file = join(folder, 'none', 'p.json');
    const args = [join(REPO, 'dist/cli/main.js'), 'serve', '--model', MINI, '--profile', file];
    const { status, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
    expect(status).toBe(2);
    expect(stderr).toContain(`The "--profile" option is ${file}, which cannot be written`);
  });
});

describe('a profile of a moment', () => {
  it('answers with what happened meanwhile, and one at a time', async () => {
    const server = await serve();
    const capture = (seconds: number) => server.post('/admin/profile', { seconds });
    let ended = false;
    const first = capture(2).finally(() => {
      ended = true;
    });
    // Until it ends, however busy the machine is.
    const refused: string[] = [];
    while (!ended) {
      await classifyAll(server, sentences.slice(0, 32));
      const { body } = await capture(0.001);
      if (body.error !== undefined) refused.push(body.error.code);
    }
    expect(new Set(refused)).toEqual(new Set(['cannot_run']));
    const answer = await first;
    expect(answer.status).toBe(200);
    expect(summarize(timelineOf(answer.body as TraceFile)).passes.count).toBeGreaterThanOrEqual(2);
    expect((await capture(0.001)).status).toBe(200);
    expect((await server.post('/admin/profile', { seconds: 61 })).status).toBe(400);
    await server.stop();
  });

  it('ends with a client that went away', async () => {
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
