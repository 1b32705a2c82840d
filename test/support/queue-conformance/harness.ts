/** A queue with the scripted engine, and jobs whose answers identify them. */
import { randomUUID } from 'node:crypto';
import { afterEach } from 'vitest';
import type { SidaError } from '../../../src/errors.js';
import type { CompletionDelta, JobResult } from '../../../src/protocol/engine-messages.js';
import type { JobEvent, JobQueue, JobRecord } from '../../../src/queue/job-queue.js';
import { hasEnded } from '../../../src/queue/job-queue.js';
import type { TaskJob, TaskResult } from '../../../src/tasks/registry.js';
import { answerTo, type ScriptedEngine, type ScriptedRun } from '../../unit/queue/scripted-engine.js';
import { eventually } from '../eventually.js';

export interface QueueSettings {
  bound: number;
  boundBytes: number;
  concurrency: number;
  attempts: number;
  deadlineMs: number;
  keptDeadlineMs: number;
  retentionMs: number;
  /** Most bytes of one kept answer; in memory, of all of them. */
  answerBytes: number;
  answers: number;
}

export interface QueueUnderTest {
  queue: JobQueue;
  /** Runs all of the queue's jobs. */
  engine: ScriptedEngine;
  close(): Promise<void>;
}

export type MakeQueue = (settings: QueueSettings) => Promise<QueueUnderTest>;

const SETTINGS: QueueSettings = {
  bound: 200,
  boundBytes: 1 << 20,
  concurrency: 2,
  attempts: 3,
  deadlineMs: 60_000,
  keptDeadlineMs: 60_000,
  retentionMs: 3_600_000,
  answerBytes: 64 * 1024 ** 2,
  answers: 10_000,
};

export const OWNER = 'a'.repeat(64);

/** A job whose answer contains its name. */
export function job(name: string): TaskJob {
  return { kind: 'classify', inputs: [name], labels: ['no', 'yes'] };
}

export function completion(name: string): TaskJob {
  return { kind: 'complete', prompts: [name], maxTokens: 8, stop: [], logprobs: null, stream: true };
}

export function delta(text: string): CompletionDelta {
  return { index: 0, text, tokenIds: [7], logprobs: null, finishReason: null };
}

export function nameOf(request: TaskJob): string {
  if (request.kind === 'complete') return String(request.prompts[0]);
  if ('inputs' in request) return String(request.inputs[0]);
  throw new Error(`a ${request.kind} has no name`);
}

/** The name in the answer of `job(name)`. */
export function answered(given: JobResult | null | undefined): string | undefined {
  const result = given as TaskResult | null | undefined;
  return result?.kind === 'classify' ? result.data[0]!.label : undefined;
}

export function resultOf(request: TaskJob): TaskResult {
  const result = answerTo(request);
  if (result.kind !== 'classify') return result;
  return { ...result, data: [{ label: nameOf(request), scores: { no: 0.25, yes: 0.75 } }] };
}

export const finish = (run: ScriptedRun) => run.finish(resultOf(run.request));

/** Returns a function that makes queues, and closes them after each test. */
export function queues(make: MakeQueue): (settings?: Partial<QueueSettings>) => Promise<Harness> {
  const made: Harness[] = [];
  afterEach(async () => {
    for (const harness of made.splice(0)) await harness.close();
  });
  return async (settings = {}) => {
    const harness = new Harness(await make({ ...SETTINGS, ...settings }));
    made.push(harness);
    return harness;
  };
}

export const newId = (): string => randomUUID();

export class Harness {
  readonly queue: JobQueue;
  readonly engine: ScriptedEngine;
  readonly #close: () => Promise<void>;
  #closed: Promise<void> | undefined;
  /** Names of the jobs whose runs began, in order. */
  readonly began: string[] = [];

  constructor({ queue, engine, close }: QueueUnderTest) {
    this.queue = queue;
    this.engine = engine;
    this.#close = close;
    this.runs();
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  /** Calls `script` for each run that begins. Without a script, a run continues until the test ends it. */
  runs(script?: (run: ScriptedRun) => void): void {
    this.engine.script = (run) => {
      this.began.push(nameOf(run.request));
      script?.(run);
    };
  }

  /** Completes all current and later runs. */
  finishAll(): void {
    this.runs(finish);
    for (const run of [...this.engine.runs]) finish(run);
  }

  /** Enqueues a kept job and returns its id. */
  async keep(name: string, owner = OWNER): Promise<string> {
    return (await this.queue.enqueue(newId(), owner, job(name))).record.id;
  }

  /** Resolves with the run of a job when it has begun. */
  async running(name: string): Promise<ScriptedRun> {
    const find = () => this.engine.runs.find(({ request }) => nameOf(request) === name);
    await eventually(() => find() !== undefined, `the run of ${name}`);
    return find()!;
  }

  async record(id: string, owner = OWNER): Promise<JobRecord> {
    const record = await this.queue.find(id, owner);
    if (record === undefined) throw new Error(`job ${id} is not kept`);
    return record;
  }

  /** Resolves with the record of a job when it has ended. */
  async ended(id: string, owner = OWNER): Promise<JobRecord> {
    await eventually(async () => hasEnded(await this.record(id, owner)), `the end of ${id}`);
    return this.record(id, owner);
  }

  async watch(id: string, owner = OWNER): Promise<{ events: JobEvent[]; stop: () => void }> {
    const events: JobEvent[] = [];
    const stop = await this.queue.watch(id, owner, (event) => events.push(event));
    if (stop === undefined) throw new Error(`job ${id} is not kept`);
    return { events, stop };
  }

  /** Crashes the engine and restarts it. */
  async crash(): Promise<void> {
    this.engine.crash();
    // The queue must see the end of the runs before the engine is ready.
    await new Promise((resolve) => setTimeout(resolve, 5));
    this.engine.enter('ready');
  }
}

/** The end of a submitted job: the name in its answer, or the code of its error. */
export async function ending(outcome: Promise<{ result: JobResult }>): Promise<string> {
  try {
    return answered((await outcome).result) ?? 'an answer';
  } catch (error) {
    return (error as SidaError).code;
  }
}
