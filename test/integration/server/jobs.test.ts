// Kept jobs over HTTP with the bundled model.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
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

async function accept(
  server: ServerProcess,
  body: object,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const response = await fetch(`${server.url}/v1/jobs`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
  return { status: response.status, headers: response.headers, body: await response.json() };
}

/** Polls the job until it has ended. */
async function ended(server: ServerProcess, path: string) {
  let job: Answer['body'];
  await server.until(async () => {
    job = (await server.get(path)).body;
    return !['queued', 'running'].includes(job.status);
  });
  return job;
}

/** Reads the events of the job until its end. */
async function events(
  server: ServerProcess,
  path: string,
): Promise<{ name: string; data: Answer['body'] }[]> {
  const text = (await server.get(`${path}/events`)).body as string;
  return text
    .split('\n\n')
    .filter((event) => event.startsWith('event: '))
    .map((event) => {
      const [name, data] = event.split('\n');
      return { name: name!.slice('event: '.length), data: JSON.parse(data!.slice('data: '.length)) };
    });
}

describe('jobs', () => {
  let server: ServerProcess;
  beforeAll(async () => {
    server = await ServerProcess.start(['--model', MINI, '--memory-budget', '50%']);
  });
  afterAll(() => server.stop());

  it('have the answers of the synchronous routes', async () => {
    const classify = { task: 'sst2', input: SENTENCES };
    const direct = [
      (await server.post('/v1/classify', classify)).body,
      (await server.post('/v1/completions', COMPLETION)).body,
    ];
    const accepted = [
      await accept(server, { type: 'classify', ...classify }),
      await accept(server, { type: 'completion', ...COMPLETION }),
    ];
    for (const { status, headers, body } of accepted) {
      expect([status, headers.get('location')]).toEqual([202, `/v1/jobs/${body.id}`]);
    }
    const [first, second] = await Promise.all(
      accepted.map(({ headers }) => ended(server, headers.get('location')!)),
    );
    expect(first.answer).toEqual(direct[0]);
    expect(second.answer).toEqual({
      ...direct[1],
      id: `cmpl-${second.id}`,
      created: Math.floor(second.created_ms / 1000),
    });
  });

  it('stream the deltas of a completion, which make up the answer', async () => {
    const { headers } = await accept(server, { type: 'completion', ...COMPLETION, stream: true });
    const told = await events(server, headers.get('location')!);
    const last = told.at(-1)!;
    expect([last.name, last.data.status]).toEqual(['status', 'completed']);
    const direct = (await server.post('/v1/completions', COMPLETION)).body;
    for (const index of [0, 1]) {
      const pieces = told
        .filter(({ name, data }) => name === 'piece' && data.choices[0].index === index)
        .map(({ data }) => data.choices[0]);
      expect(pieces.map(({ text }) => text).join('')).toBe(direct.choices[index].text);
      expect(pieces.flatMap(({ token_ids }) => token_ids)).toEqual(direct.choices[index].token_ids);
      expect(pieces.flatMap(({ logprobs }) => logprobs.text_offset)).toEqual(
        direct.choices[index].logprobs.text_offset,
      );
    }
    expect(last.data.answer.choices).toEqual(direct.choices);
  });

  it('are created once for 100 requests with one idempotency key, with 100 equal answers', async () => {
    const key = { 'idempotency-key': 'one-of-100' };
    const body = { type: 'classify', task: 'sst2', input: SENTENCES };
    const before = (await metricsOf(server))('sida_queue_accepted_total');
    const accepted = await Promise.all(Array.from({ length: 100 }, () => accept(server, body, key)));
    expect(new Set(accepted.map(({ status }) => status))).toEqual(new Set([202]));
    const answers = await Promise.all(accepted.map(({ headers }) => ended(server, headers.get('location')!)));
    for (const answer of answers) expect(answer).toEqual(answers[0]);
    expect(answers[0].status).toBe('completed');
    expect((await metricsOf(server))('sida_queue_accepted_total')).toBe(before + 1);
    const other = await accept(server, { ...body, input: 'another' }, key);
    expect([other.status, other.body.error.code]).toEqual([422, 'idempotency_conflict']);
  });

  it('are cancelled while the engine runs them, and the next answer is correct', async () => {
    const golden = (await server.post('/v1/classify', { task: 'sst2', input: SENTENCES })).body;
    const [engine] = server.enginePids();
    // A frozen engine still has the job when the job is cancelled.
    process.kill(engine!, 'SIGSTOP');
    const { headers } = await accept(server, { type: 'completion', ...COMPLETION, stream: true });
    const path = headers.get('location')!;
    await server.until(async () => (await server.get(path)).body.status === 'running');
    const cancelled = await server.request('DELETE', path);
    process.kill(engine!, 'SIGCONT');
    expect([cancelled.status, cancelled.body.status]).toEqual([200, 'cancelled']);
    const again = await accept(server, { type: 'classify', task: 'sst2', input: SENTENCES });
    expect((await ended(server, again.headers.get('location')!)).answer).toEqual(golden);
    expect((await server.get(path)).body).toEqual(cancelled.body);
    expect((await metricsOf(server))('sida_queue_active_jobs')).toBe(0);
  });

  it('run again after a kill -9 of the engine, and their answers are correct', async () => {
    const golden = await Promise.all(
      SENTENCES.map(async (input) => (await server.post('/v1/classify', { task: 'sst2', input })).body),
    );
    const [engine] = server.enginePids();
    process.kill(engine!, 'SIGSTOP');
    const accepted = await Promise.all(
      SENTENCES.map((input) => accept(server, { type: 'classify', task: 'sst2', input })),
    );
    process.kill(engine!, 'SIGKILL');
    const jobs = await Promise.all(accepted.map(({ headers }) => ended(server, headers.get('location')!)));
    expect(jobs.map(({ answer }) => answer)).toEqual(golden);
    expect(jobs.map(({ attempts }) => attempts)).toEqual(SENTENCES.map(() => 2));
  });
});

it('finishes running jobs on SIGTERM and reports them to their readers, and accepts no new ones', async () => {
  const server = await ServerProcess.start(['--model', MINI, '--memory-budget', '50%']);
  const [engine] = server.enginePids();
  process.kill(engine!, 'SIGSTOP');
  const { headers } = await accept(server, { type: 'classify', task: 'sst2', input: SENTENCES });
  const path = headers.get('location')!;
  const told = events(server, path);
  await server.until(async () => (await metricsOf(server))('sida_kept_watching') === 1);
  server.child.kill('SIGTERM');
  await server.until(async () => (await server.get('/health/ready')).status === 503);
  expect((await accept(server, { type: 'completion', prompt: 'a' })).status).toBe(503);
  expect((await server.get(path)).body.status).toBe('running');
  process.kill(engine!, 'SIGCONT');
  expect((await told).at(-1)!.data).toMatchObject({ status: 'completed', attempts: 1 });
  expect(await server.exit).toBe(0);
});
