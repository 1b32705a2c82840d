// Behaviour that only the memory queue has. The conformance suite tests what every queue must do.
import { setTimeout as delay } from 'node:timers/promises';
import fc from 'fast-check';
import { beforeEach, describe, expect, it } from 'vitest';
import { clockMs } from '../../../../src/clock.js';
import { SidaError } from '../../../../src/errors.js';
import type { JobOptions } from '../../../../src/queue/job-queue.js';
import { MemoryQueue, type MemoryQueueOptions } from '../../../../src/queue/memory/memory-queue.js';
import type { TaskJob } from '../../../../src/tasks/registry.js';
import { QUOTE, ScriptedEngine } from '../scripted-engine.js';

const REQUEST: TaskJob = { kind: 'tokenize', inputs: ['a'], addSpecialTokens: true };

let engine: ScriptedEngine;
let queue: MemoryQueue;

function makeQueue(options: Partial<MemoryQueueOptions> = {}): void {
  engine = new ScriptedEngine();
  queue = new MemoryQueue(engine, { bound: 4, deadlineMs: 5_000, concurrency: 2, ...options });
}

/** Submits a job. Resolves with its number of runs, or with the error. */
async function ending(id: string, options?: JobOptions): Promise<string> {
  try {
    const { attempts } = await queue.submit(id, REQUEST, options);
    return `answered ${attempts}`;
  } catch (error) {
    const { code, message } = error as SidaError;
    return `${code}: ${message}`;
  }
}

/** Waits until the queue has seen rejected runs. */
const settle = () => delay(0);

beforeEach(() => makeQueue());

describe('admission', () => {
  it('computes Retry-After for the full concurrency while the engine restarts', async () => {
    makeQueue({ bound: 80, concurrency: 4 });
    engine.crash();
    const jobs = Array.from({ length: 80 }, (_, i) => ending(`${i}`));
    // Before any run has ended, a run is assumed to take 100 ms. There are 80 jobs, four at a time.
    await expect(queue.submit('late', REQUEST)).rejects.toMatchObject({ details: { retry_after_s: 2 } });
    engine.script = (run) => run.finish();
    engine.enter('ready');
    expect(await Promise.all(jobs)).toEqual(Array(80).fill('answered 1'));
  });

  it('measures the time in the queue', async () => {
    const first = queue.submit('a', REQUEST);
    void ending('b');
    const third = queue.submit('c', REQUEST);
    await delay(20);
    engine.script = (run) => run.finish();
    for (const run of [...engine.runs]) run.finish();
    expect((await third).queueMs).toBeGreaterThanOrEqual(15);
    expect((await first).queueMs).toBeLessThan((await third).queueMs);
  });
});

it('gives a stream its deadline until the first delta alone', async () => {
  makeQueue({ deadlineMs: 60, concurrency: 1 });
  const onDelta = () => undefined;
  const begun = ending('begun', { onDelta });
  engine.runs[0]!.options.onDelta!({
    index: 0,
    text: 'a',
    tokenIds: [1],
    logprobs: null,
    finishReason: null,
  });
  expect(await ending('waiting', { onDelta })).toMatch(/^deadline_exceeded/);
  await delay(60);
  engine.runs[0]!.finish();
  expect(await begun).toBe('answered 1');
  const silent = ending('silent', { onDelta });
  expect(engine.runs).toHaveLength(1);
  expect(await silent).toMatch(/^deadline_exceeded/);
  const whole = ending('whole');
  expect(engine.runs).toHaveLength(1);
  expect(await whole).toMatch(/^deadline_exceeded/);
});

describe('quotes of waiting jobs', () => {
  const complete = (maxTokens: number) => {
    return {
      ...({ kind: 'complete', prompts: ['a'], stop: [], logprobs: null, stream: false } as const),
      maxTokens,
    } satisfies TaskJob;
  };
  const submit = (id: string, maxTokens: number, owner = '') =>
    void queue.submit(id, complete(maxTokens), { owner }).catch(() => undefined);
  /** Starts the jobs one by one. */
  async function order(): Promise<string[]> {
    for (let turns = 0; turns < 20; turns += 1) {
      await settle();
      engine.runs[0]?.finish();
    }
    return engine.started;
  }
  /** Every token takes 10 ms. 7 tokens cannot be quoted, and the engine is not ready for 8 at first. */
  function makeQuoting(concurrency: number): void {
    makeQueue({ bound: 100, concurrency, deadlineMs: 60_000 });
    engine.onControl = (request) => {
      const { maxTokens } = (request as unknown as { job: ReturnType<typeof complete> }).job;
      if (maxTokens === 7) throw new Error('no quote');
      if (maxTokens === 8 && engine.controls.length === 1)
        throw new SidaError({ code: 'not_ready', message: 'The engine restarts' });
      return { kind: 'quote', quote: { ...QUOTE, aloneSeconds: maxTokens / 100 } };
    };
  }
  beforeEach(() => makeQuoting(1));

  it('let the shortest go first, and a job that has a place starts unquoted', async () => {
    submit('running', 1);
    expect(engine.controls).toEqual([]);
    for (const [id, tokens] of [
      ['long', 200],
      ['short', 10],
      ['middle', 50],
    ] as const)
      submit(id, tokens);
    expect(await order()).toEqual(['running', 'short', 'middle', 'long']);
    expect(engine.controls).toHaveLength(3);
    expect(engine.runs).toEqual([]);
  });

  it('count a job as short that cannot be quoted or runs no model', async () => {
    submit('running', 1);
    submit('unquoted', 7);
    submit('quoted', 100);
    void queue.submit('tokenize', REQUEST).catch(() => undefined);
    expect(await order()).toEqual(['running', 'unquoted', 'tokenize', 'quoted']);
  });

  it('are asked for again when the engine is ready', async () => {
    submit('running', 1);
    submit('restarted', 8);
    submit('long', 100);
    await settle();
    expect(engine.controls).toHaveLength(1);
    engine.enter('ready');
    expect(await order()).toEqual(['running', 'restarted', 'long']);
    expect(engine.controls).toHaveLength(3);
  });

  it('count max_seconds as a deadline', async () => {
    submit('running', 1);
    submit('long', 200);
    void queue.submit('limited', { ...complete(300), maxSeconds: 1 }).catch(() => undefined);
    expect(await order()).toEqual(['running', 'limited', 'long']);
  });

  it('leave keys their turns', async () => {
    makeQuoting(2);
    submit('a1', 10, 'a');
    submit('a2', 10, 'a');
    submit('a3', 1, 'a');
    submit('b1', 1_000, 'b');
    await settle();
    engine.runs[0]!.finish();
    await settle();
    // The key "a" has a place still.
    expect(engine.started).toEqual(['a1', 'a2', 'b1']);
  });

  it('tell the engine when a job came and when it fails unanswered', () => {
    const before = clockMs();
    submit('running', 1);
    const { arrivedMs, deadlineMs } = engine.runs[0]!.options.times!;
    expect(arrivedMs).toBeGreaterThanOrEqual(before - 0.01);
    expect(arrivedMs).toBeLessThanOrEqual(clockMs() + 0.01);
    expect(deadlineMs - arrivedMs).toBe(60_000);
  });
});

describe('crash of the engine', () => {
  it('gives up a job that was alone in two crashes', async () => {
    const job = ending('a');
    engine.crash();
    await settle();
    engine.enter('ready');
    engine.crash();
    expect(await job).toMatch(/^engine_crashed: .*2 crashes/);
    expect(queue.stats).toMatchObject({ quarantined: 1, failed: 1 });
  });

  it('runs jobs that were in two crashes alone, to find the one that causes them', async () => {
    makeQueue({ concurrency: 8, bound: 8 });
    const jobs = ['a', 'poison', 'b', 'c'].map((id) => ending(id));
    for (let crashes = 0; crashes < 2; crashes += 1) {
      engine.crash();
      await settle();
      engine.enter('ready');
    }
    engine.mostAtOnce = 0;
    const late = ending('late');
    engine.script = (run) => {
      if (run.id !== 'poison') setTimeout(() => run.finish(), 1);
      else setTimeout(() => engine.crash(), 1);
    };
    engine.runs[0]!.finish();
    while (engine.state.phase === 'ready') await settle();
    engine.script = (run) => setTimeout(() => run.finish(), 1);
    await settle();
    engine.enter('ready');
    expect(await Promise.all(jobs)).toEqual([
      'answered 3',
      expect.stringMatching(/^engine_crashed: .*3 crashes/),
      'answered 3',
      'answered 3',
    ]);
    expect(await late).toBe('answered 1');
    expect(queue.stats.quarantined).toBe(1);
  });

  it('ends every waiting job when the engine fails for good, and refuses new ones', async () => {
    engine.enter('restarting');
    const jobs = [ending('a'), ending('b')];
    const { id } = (await queue.enqueue('kept', '', REQUEST)).record;
    engine.enter('failed');
    for (const end of await Promise.all(jobs)) expect(end).toMatch(/^not_ready/);
    expect(await queue.find(id, '')).toMatchObject({ status: 'failed', error: { code: 'not_ready' } });
    expect(await ending('late')).toMatch(/^not_ready/);
    await expect(queue.enqueue('late', '', REQUEST)).rejects.toMatchObject({ code: 'not_ready' });
    expect(await queue.find('late', '')).toBeUndefined();
  });

  it('requeues a job when the engine was no longer ready', async () => {
    engine.script = (run) => {
      engine.state = { phase: 'restarting', detail: '' };
      run.fail('not_ready');
    };
    const job = ending('a');
    await settle();
    engine.script = (run) => run.finish();
    engine.enter('ready');
    expect(await job).toBe('answered 1');
  });
});

describe('room in the engine', () => {
  const of = (characters: number): TaskJob => {
    const prompts = ['x'.repeat(characters)];
    return { kind: 'complete', prompts, maxTokens: 1, stop: [], logprobs: null, stream: false };
  };
  const running = () => engine.runs.map(({ id }) => id);

  const ask = (id: string, owner: string, characters: number) =>
    queue.submit(id, of(characters), { owner }).catch(() => undefined);
  const end = async (jobs: Promise<unknown>[]) => {
    engine.script = (run) => run.finish();
    for (const run of [...engine.runs]) run.finish();
    await Promise.all(jobs);
  };

  it('is limited only by the number of jobs while there is one owner', async () => {
    makeQueue({ bound: 20, concurrency: 8, engineTokens: () => 100 });
    const jobs = ['a', 'b', 'c', 'd'].map((id) => ask(id, 'one', 300));
    await settle();
    expect(running()).toEqual(['a', 'b', 'c', 'd']);
    await end(jobs);
  });

  it('is limited in tokens, except for the oldest job and for owners below a fair share', async () => {
    makeQueue({ bound: 20, concurrency: 8, engineTokens: () => 100 });
    const jobs = [ask('m0', 'other', 3), ...['n1', 'n2', 'n3', 'n4'].map((id) => ask(id, 'noisy', 150))];
    await settle();
    expect(running()).toEqual(['m0', 'n1', 'n2']);
    // The fair share of each of three owners is 33 tokens.
    jobs.push(ask('q1', 'quiet', 60), ask('q2', 'quiet', 60), ask('q3', 'quiet', 60));
    await settle();
    expect(running()).toEqual(['m0', 'n1', 'n2', 'q1', 'q2']);
    // A long job becomes the oldest, which does not count, so its owner may add another.
    jobs.push(ask('m1', 'other', 30));
    await settle();
    expect(running()).toEqual(['m0', 'n1', 'n2', 'q1', 'q2', 'm1']);
    await end(jobs);
  });

  it('has places left for another owner when one fills it with small jobs', async () => {
    makeQueue({ bound: 100, concurrency: 16 });
    const jobs = [ask('m0', 'other', 3), ...Array.from({ length: 40 }, (_, i) => ask(`n${i}`, 'noisy', 3))];
    await settle();
    expect(running()).toHaveLength(1 + 12);
    jobs.push(ask('q1', 'quiet', 3), ask('q2', 'quiet', 3));
    await settle();
    expect(running().slice(-2)).toEqual(['q1', 'q2']);
    await end(jobs);
  });

  it('determines Retry-After by the number of running jobs', async () => {
    makeQueue({ bound: 40, concurrency: 8, engineTokens: () => 10 });
    const jobs = [ask('m', 'other', 3), ...Array.from({ length: 41 }, (_, i) => ask(`n${i}`, 'noisy', 300))];
    await settle();
    expect([running().length, queue.stats.waiting]).toEqual([2, 40]);
    // Before any run has ended, a run is assumed to take 100 ms. There are 42 jobs, two at a time.
    await expect(queue.submit('late', of(3))).rejects.toMatchObject({ details: { retry_after_s: 3 } });
    await end(jobs);
  });

  it('admits a job that is larger than the whole limit', async () => {
    makeQueue({ engineTokens: () => 10 });
    const job = queue.submit('a', of(9_000));
    await settle();
    expect(running()).toEqual(['a']);
    engine.runs[0]!.finish();
    await job;
  });
});

type Step = 'submit' | 'finish' | 'crash' | 'ready' | 'cancel';

it('answers every accepted job exactly once, whatever happens in between', async () => {
  const steps = fc.array(fc.constantFrom<Step>('submit', 'submit', 'finish', 'crash', 'ready', 'cancel'), {
    maxLength: 60,
  });
  // Each of these jobs counts as one token.
  const room = fc.record({
    owners: fc.integer({ min: 1, max: 3 }),
    engineTokens: fc.integer({ min: 1, max: 4 }),
  });
  await fc.assert(
    fc.asyncProperty(steps, room, async (sequence, { owners, engineTokens }) => {
      makeQueue({ bound: 100, concurrency: 3, engineTokens: () => engineTokens });
      const endings: string[] = [];
      const aborts: AbortController[] = [];
      const jobs: Promise<unknown>[] = [];
      for (const step of sequence) {
        if (step === 'submit') {
          const abort = new AbortController();
          aborts.push(abort);
          const options = { signal: abort.signal, owner: `${jobs.length % owners}` };
          jobs.push(ending(`${jobs.length}`, options).then((end) => endings.push(end)));
        } else if (step === 'finish') engine.runs[0]?.finish();
        else if (step === 'crash') engine.crash();
        else if (step === 'ready') engine.enter('ready');
        else aborts.shift()?.abort();
        await settle();
        expect(engine.runs.length).toBeLessThanOrEqual(3);
      }
      engine.script = (run) => run.finish();
      for (const run of [...engine.runs]) run.finish();
      engine.enter('ready');
      await Promise.all(jobs);
      expect(endings).toHaveLength(jobs.length);
      const { accepted, completed, failed, cancelled, waiting, active } = queue.stats;
      await settle();
      expect({ accepted, waiting, active }).toEqual({ accepted: jobs.length, waiting: 0, active: 0 });
      expect(completed + failed + cancelled).toBe(accepted);
    }),
    { numRuns: 60 },
  );
});
