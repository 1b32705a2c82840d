/** A queue over the scripted engine, with jobs that can be told apart by their answers. */
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
  concurrency: number;
  attempts: number;
  deadlineMs: number;
  keptDeadlineMs: number;
  retentionMs: number;
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
  concurrency: 2,
  attempts: 3,
  deadlineMs: 60_000,
  keptDeadlineMs: 60_000,
  retentionMs: 3_600_000,
  answerBytes: 64 * 1024 ** 2,
  answers: 10_000,
};

export const OWNER = 'a'.repeat(64);

/** A job whose answer names it. */
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
  const [first] = request.kind === 'complete' ? request.prompts : request.inputs;
  return String(first);
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

/** Queues of one suite, closed after each test. */
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
  /** Names of the jobs whose runs began, in their order. */
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

  /** What becomes of each run; without one it stays until the test ends it. */
  runs(script?: (run: ScriptedRun) => void): void {
    this.engine.script = (run) => {
      this.began.push(nameOf(run.request));
      script?.(run);
    };
  }

  /** Ends every run there is and every later one with its answer. */
  finishAll(): void {
    this.runs(finish);
    for (const run of [...this.engine.runs]) finish(run);
  }

  /** Accepts a kept job and gives its id. */
  async keep(name: string, owner = OWNER): Promise<string> {
    return (await this.queue.enqueue(newId(), owner, job(name))).record.id;
  }

  /** Resolves with its run, once it began. */
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

  /** Resolves with its last record. */
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

  /** Kills the engine and brings it back. */
  async crash(): Promise<void> {
    this.engine.crash();
    // Lets the queue see the ended runs before the engine is ready.
    await new Promise((resolve) => setTimeout(resolve, 5));
    this.engine.enter('ready');
  }
}

/** How a submitted job ended: the name in its answer, or the code of its error. */
export async function ending(outcome: Promise<{ result: JobResult }>): Promise<string> {
  try {
    return answered((await outcome).result) ?? 'an answer';
  } catch (error) {
    return (error as SidaError).code;
  }
}
