/** Jobs for tests of the ledger by itself. */
import { randomUUID } from 'node:crypto';
import { expect } from 'vitest';
import type { NewJob, RedisLedger } from '../../src/queue/redis/redis-ledger.js';
import type { TaskJob } from '../../src/tasks/registry.js';
import { answerTo } from '../unit/queue/scripted-engine.js';

export const LEDGER_LIMITS = { attempts: 3, keptMs: 60_000, keptBytes: 1 << 20, keptJobs: 100 };
export const REQUEST: TaskJob = { kind: 'tokenize', inputs: ['a'], addSpecialTokens: true };
export const RESULT = JSON.stringify(answerTo(REQUEST));

export function newJob(more: Partial<NewJob> = {}): NewJob {
  return {
    id: randomUUID(),
    kind: 'tokenize',
    owner: 'owner',
    sync: false,
    form: '{"logprobs":null,"tokenIds":false,"experts":false}',
    request: JSON.stringify(REQUEST),
    deadlineMs: 60_000,
    bound: 1000,
    boundBytes: 1 << 20,
    key: '',
    digest: '',
    ...more,
  };
}

/** Accepts a job and returns its id. */
export async function acceptIn(ledger: RedisLedger, more: Partial<NewJob> = {}): Promise<string> {
  const job = newJob(more);
  expect(await ledger.accept(job)).toEqual({ as: 'accepted' });
  return job.id;
}
