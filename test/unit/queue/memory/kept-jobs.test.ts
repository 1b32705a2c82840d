// Behaviour of kept jobs that only the memory queue has.
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { JobEvent, JobRecord } from '../../../../src/queue/job-queue.js';
import { MemoryQueue, type MemoryQueueOptions } from '../../../../src/queue/memory/memory-queue.js';
import { DELTA_BYTES } from '../../../../src/queue/refusals.js';
import type { TaskJob, TaskResult } from '../../../../src/tasks/registry.js';
import { eventually } from '../../../support/eventually.js';
import { answerTo, ScriptedEngine } from '../scripted-engine.js';

const REQUEST: TaskJob = { kind: 'classify', inputs: ['a'], labels: ['no', 'yes'] };

let engine: ScriptedEngine;
let queue: MemoryQueue;
let last: JobRecord[];

function makeQueue(options: Partial<MemoryQueueOptions> = {}): void {
  engine = new ScriptedEngine();
  last = [];
  queue = new MemoryQueue(engine, {
    bound: 100,
    deadlineMs: 60_000,
    onKeptEnd: (record) => last.push(record),
    ...options,
  });
}

beforeEach(() => makeQueue());
afterEach(async () => {
  vi.restoreAllMocks();
  await queue.drain(0);
});

const keep = async (id: string) => (await queue.enqueue(id, '', REQUEST)).record;
const find = async (id: string) => (await queue.find(id, ''))!;

describe('a wall clock', () => {
  it('that is set back causes no negative durations', async () => {
    const { createdMs } = await keep('a');
    vi.spyOn(Date, 'now').mockReturnValue(createdMs - 3_600_000);
    engine.runs[0]!.finish();
    await eventually(async () => (await find('a')).status === 'completed');
    const { startedMs, finishedMs } = await find('a');
    expect(startedMs!).toBeGreaterThanOrEqual(createdMs);
    expect(finishedMs!).toBeGreaterThanOrEqual(startedMs!);
    expect(finishedMs! - createdMs).toBeLessThan(60_000);
  });

  it('that is set forward drops no job early', async () => {
    engine.script = (run) => run.finish();
    await keep('a');
    await eventually(async () => (await find('a')).status === 'completed');
    const now = Date.now();
    vi.spyOn(Date, 'now').mockReturnValue(now + 2 * 3_600_000);
    await keep('b');
    await delay(10);
    expect((await find('a')).status).toBe('completed');
  });
});

it('drops old jobs without further requests', async () => {
  makeQueue({ retentionMs: 50 });
  engine.script = (run) => run.finish();
  for (const id of ['a', 'b', 'c']) await keep(id);
  await eventually(() => queue.stats.kept.dropped.retention === 3, 'the sweep');
  expect(queue.stats.kept).toMatchObject({ queued: 0, running: 0, ended: 0, answerBytes: 0 });
});

describe('a bound of all kept jobs', () => {
  /** Ends a job of the owner. Its answer grows with `inputs`. */
  const end = async (owner: string, id: string, inputs = 1) => {
    const request = { ...REQUEST, inputs: Array.from({ length: inputs }, () => 'a') };
    const { record } = await queue.enqueue(id, owner, request, { key: id, digest: id });
    await eventually(async () => (await queue.find(record.id, owner))?.status !== 'running');
  };
  const kept = async (owner: string, ids: string[]) => {
    const found = await Promise.all(ids.map((id) => queue.find(id, owner)));
    return ids.filter((_, at) => found[at] !== undefined);
  };

  it.each([
    ['number', { answers: 4 }, 1],
    ['bytes', { answerBytes: 20_000 }, 40],
  ] as const)(
    '%s takes from the owner who holds most, and leaves the keys of others',
    async (reason, bound, inputs) => {
      // biome-ignore format: one line
      makeQueue(bound);
      engine.script = (run) => run.finish();
      await end('alice', 'a0');
      await end('alice', 'a1');
      const bobs = Array.from({ length: 12 }, (_, at) => `b${at}`);
      for (const id of bobs) await end('bob', id, inputs);
      expect(await kept('alice', ['a0', 'a1'])).toEqual(['a0', 'a1']);
      const left = await kept('bob', bobs);
      expect(left.length).toBeGreaterThan(0);
      expect(left.length).toBeLessThan(12);
      expect(left).toEqual(bobs.slice(-left.length));
      expect(queue.stats.kept.dropped[reason]).toBe(12 - left.length);
      const { created } = await queue.enqueue('again', 'alice', REQUEST, { key: 'a0', digest: 'a0' });
      expect(created).toBe(false);
    },
  );
});

it('reports the last record of each kept job once, and of no other job', async () => {
  engine.script = (run) => run.finish();
  await queue.submit('waited', REQUEST);
  await keep('a');
  await eventually(() => last.length > 0);
  engine.script = undefined;
  await keep('b');
  await queue.cancel('b', '');
  await queue.cancel('b', '');
  engine.crash();
  await delay(5);
  expect(last.map(({ id, status }) => `${id} ${status}`)).toEqual(['a completed', 'b cancelled']);
  expect(last).toEqual([await find('a'), await find('b')]);
});

describe('the deltas of a kept job', () => {
  const stream: TaskJob = {
    kind: 'complete',
    prompts: ['a'],
    maxTokens: 4,
    stop: [],
    logprobs: null,
    stream: true,
  };
  const delta = (index: number, text: string) => {
    return { index, text, tokenIds: [7], logprobs: null, finishReason: null };
  };

  it('come to a later listener as one for each choice, which those that follow do not change', async () => {
    await queue.enqueue('a', '', stream);
    const { onDelta } = engine.runs[0]!.options;
    for (const [index, text] of [[0, 'one'], [1, 'other'], [0, ' two']] as const) onDelta!(delta(index, text)); // biome-ignore format: one line
    const told: JobEvent[] = [];
    await queue.watch('a', '', (event) => told.push(event));
    onDelta!(delta(1, ' more'));
    const texts = told.map((event) =>
      event.type === 'delta' ? `${event.delta.index} ${event.delta.text}` : '',
    );
    expect(texts).toEqual(['0 one two', '1 other', '1  more']);
  });

  it('end the job and its run when they are too large, and what it reserved stays charged', async () => {
    await queue.enqueue('a', '', stream);
    const [run] = engine.runs;
    const text = 'x'.repeat(DELTA_BYTES / 4);
    for (let sent = 0; sent < 3; sent += 1) run!.options.onDelta!(delta(0, text));
    expect((await find('a')).status).toBe('running');
    run!.options.onDelta!(delta(0, text));
    expect(run!.options.signal.aborted).toBe(true);
    const { status, error } = await find('a');
    expect([status, error]).toMatchObject(['failed', { code: 'cannot_run', details: { limit: DELTA_BYTES }, ran: true }]); // biome-ignore format: one line
  });
});

it('drops an answer that arrives after the job was cancelled', async () => {
  let answer: (result: TaskResult) => void = () => undefined;
  engine.run = () =>
    new Promise((resolve) => {
      answer = resolve;
    });
  await keep('a');
  const cancelled = await queue.cancel('a', '');
  answer(answerTo(REQUEST));
  await delay(5);
  expect(await find('a')).toEqual(cancelled);
  expect(last).toEqual([cancelled]);
  expect(queue.stats).toMatchObject({ cancelled: 1, completed: 0, active: 0 });
});

it('counts kept jobs and their listeners', async () => {
  const stop = async (id: string) => (await queue.watch(id, '', () => undefined))!;
  await keep('a');
  engine.enter('restarting');
  await keep('b');
  const stops = [await stop('a'), await stop('b'), await stop('b')];
  expect(queue.stats.kept).toMatchObject({ queued: 1, running: 1, ended: 0, watching: 3 });
  stops[2]!();
  stops[2]!();
  expect(queue.stats.kept.watching).toBe(2);
  engine.runs[0]!.finish();
  await eventually(async () => (await find('a')).status === 'completed');
  const bytes = Buffer.byteLength(JSON.stringify((await find('a')).result));
  expect(queue.stats.kept).toMatchObject({
    queued: 1,
    running: 0,
    ended: 1,
    watching: 1,
    answerBytes: bytes,
  });
  stops[0]!();
  expect(queue.stats.kept.watching).toBe(1);
  await queue.cancel('b', '');
  expect(queue.stats.kept).toMatchObject({ queued: 0, ended: 2, watching: 0, answerBytes: bytes });
});
