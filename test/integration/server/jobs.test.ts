// Kept jobs over HTTP with the bundled model.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Answer, MINI, metricsOf, ServerProcess, sst2 } from '../../support/server-process.js';

const SENTENCES = sst2()
  .slice(0, 24)
  .map(({ text }) => text);
const COMPLETION = {
  prompt: ['The film was <extra_id_0>.', 'sst2 sentence: a fine film'],
  max_tokens: 24,
  logprobs: 1,
  return_token_ids: true,
};

const accept = (body: object): Promise<Answer> => server.post('/v1/jobs', body);

/** Polls the job until it has ended. */
async function ended(path: string) {
  let job: Answer['body'];
  await server.until(async () => {
    job = (await server.get(path)).body;
    return !['queued', 'running'].includes(job.status);
  });
  return job;
}

let server: ServerProcess;
beforeAll(async () => {
  server = await ServerProcess.start(['--model', MINI, '--memory-budget', '50%']);
});
afterAll(() => server.stop());

it('gives kept jobs the answers of the synchronous routes', async () => {
  const classify = { task: 'sst2', input: SENTENCES };
  const direct = [
    (await server.post('/v1/classify', classify)).body,
    (await server.post('/v1/completions', COMPLETION)).body,
  ];
  const accepted = [
    await accept({ type: 'classify', ...classify }),
    await accept({ type: 'completion', ...COMPLETION }),
  ];
  for (const { status, headers, body } of accepted) {
    expect([status, headers.get('location')]).toEqual([202, `/v1/jobs/${body.id}`]);
  }
  const [first, second] = await Promise.all(accepted.map(({ headers }) => ended(headers.get('location')!)));
  expect(first.answer).toEqual(direct[0]);
  expect(second.answer).toEqual({
    ...direct[1],
    id: `cmpl-${second.id}`,
    created: Math.floor(second.created_ms / 1000),
  });
});

it('finishes running jobs on SIGTERM and reports them to their readers, and accepts no new ones', async () => {
  const [engine] = server.enginePids();
  process.kill(engine!, 'SIGSTOP');
  const { headers } = await accept({ type: 'classify', task: 'sst2', input: SENTENCES });
  const path = headers.get('location')!;
  const told = server.get(`${path}/events`);
  await server.until(async () => (await metricsOf(server))('sida_kept_watching') === 1);
  server.child.kill('SIGTERM');
  await server.until(async () => (await server.get('/health/ready')).status === 503);
  expect((await accept({ type: 'completion', prompt: 'a' })).status).toBe(503);
  expect((await server.get(path)).body.status).toBe('running');
  process.kill(engine!, 'SIGCONT');
  expect((await told).body.trimEnd().split('\n').at(-1)).toMatch(/"status":"completed".*"attempts":1,/);
  expect(await server.exit).toBe(0);
});
