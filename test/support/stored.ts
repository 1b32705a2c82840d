import type { AnswerForm, JobRequest, JobResult } from '../../src/protocol/engine-messages.js';
import {
  dataOf,
  formOf,
  recordOf,
  requestOf,
  resultOf,
  type StoredJob,
} from '../../src/queue/redis/stored-job.js';

/** The parts of a kept job as another process reads them from Redis. */
export async function storedAndRead(
  request: JobRequest,
  result: JobResult,
): Promise<{ request: JobRequest; form: AnswerForm; result: JobResult }> {
  const about = { owner: 'me', sync: false, streams: true, digest: '', nonce: '', deadlineAt: 9 };
  const data = JSON.parse(JSON.stringify({ ...about, request, form: formOf(request) }));
  const returnvalue = JSON.parse(JSON.stringify({ attempts: 1, startedMs: 2, result }));
  const job = { id: 'a', name: request.kind, data, returnvalue, timestamp: 1, finishedOn: 3 };
  const read = dataOf(job);
  const { form } = recordOf({ ...job, attemptsStarted: 1 } as unknown as StoredJob, read);
  const stored = await resultOf(request.kind, returnvalue, async () => undefined);
  return { request: requestOf(read), form, result: stored.result };
}
