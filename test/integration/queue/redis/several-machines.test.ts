// Servers and workers that share a Redis, as real processes. test/faults kills, freezes and cuts them off.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { jobsIn, someRun } from '../../../support/queue-look.js';
import { describeWithRedis, RedisServer } from '../../../support/redis.js';
import { classifyAll, MINI, ServerProcess, sst2 } from '../../../support/server-process.js';
import { WorkerProcess } from '../../../support/worker-process.js';

const sentences = sst2().slice(0, 160);
const COMPLETION = { prompt: 'The film was <extra_id_0>.', max_tokens: 40, return_token_ids: true };
// Short times keep the tests fast.
const FAST = ['--lock-duration', '2s'];
const SMALL = ['--memory-budget', '20%', '--threads', '1', '--log-level', 'warn'];

const workerArgs = (redis: RedisServer) => ['--redis', redis.url, '--model', MINI, ...SMALL, ...FAST];

async function streamed(server: ServerProcess): Promise<string> {
  const response = await fetch(`${server.url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...COMPLETION, stream: true }),
  });
  const events = (await response.text()).split('\n\n').filter(Boolean);
  expect(events.at(-1)).toBe('data: [DONE]');
  return events
    .slice(0, -1)
    .map((event) => JSON.parse(event.slice('data: '.length)).choices[0]?.text ?? '')
    .join('');
}

describeWithRedis('a server without an engine and two workers', () => {
  let redis: RedisServer;
  let embedded: ServerProcess;
  let server: ServerProcess;
  let workers: WorkerProcess[];
  beforeAll(async () => {
    redis = await RedisServer.start();
    const front = ['--model', 'switch-mini', '--redis', redis.url, '--no-worker', '--log-level', 'warn'];
    [embedded, server] = await Promise.all([
      ServerProcess.start(['--model', MINI, ...SMALL]),
      ServerProcess.launch(front),
    ]);
    workers = await Promise.all([0, 1].map(() => WorkerProcess.start(workerArgs(redis))));
    await server.ready(30_000);
  });
  afterAll(async () => {
    await Promise.all([embedded.stop(), server.stop(), ...workers.map((worker) => worker.stop())]);
    await redis.end();
  });

  it('gives the same answers as an embedded engine, and streams the text that it answers whole', async () => {
    expect(await classifyAll(server, sentences)).toEqual(await classifyAll(embedded, sentences));
    const whole = await server.post('/v1/completions', COMPLETION);
    expect(whole.status).toBe(200);
    expect(whole.body.choices).toEqual((await embedded.post('/v1/completions', COMPLETION)).body.choices);
    expect(await streamed(server)).toBe(whole.body.choices[0].text);
    const tokens = await server.post('/v1/tokenize', { input: 'a fine film' });
    expect(tokens.body).toEqual((await embedded.post('/v1/tokenize', { input: 'a fine film' })).body);
    const fingerprint = async (of: ServerProcess) => (await of.get('/v1/models')).body.data[0].fingerprint;
    expect(await fingerprint(server)).toBe(await fingerprint(embedded));
  });

  it('refuses invalid requests and those that need an engine of its own', async () => {
    expect((await server.post('/v1/classify', { task: 'sst2', input: '' })).status).toBeLessThan(500);
    const unknown = await server.post('/v1/classify', { task: 'nothing', input: 'a' });
    expect([unknown.status, unknown.body.error.code]).toEqual([400, 'invalid_request']);
    const elsewhere = await server.get('/admin/experts');
    expect([elsewhere.status, elsewhere.body.error.code]).toEqual([422, 'cannot_run']);
  });

  it('requeues a job that a worker cannot finish in time, says that none is left, and the next one runs it', async () => {
    const completion = { ...COMPLETION, max_tokens: 300 };
    const golden = await embedded.post('/v1/completions', completion);
    await Promise.all(workers.map((worker) => worker.stop()));
    workers[0] = await WorkerProcess.start([...workerArgs(redis), '--drain', '10ms']);
    const running = server.post('/v1/completions', completion);
    await someRun(redis);
    expect(await workers[0].stop()).toBe(0);
    expect(await jobsIn(redis, 'waiting')).toBe(1);
    await server.until(async () => (await server.get('/health/ready')).status === 503);
    const { body } = await server.get('/health/ready');
    expect(body).toMatchObject({ phase: 'queue_unavailable', reason: 'No worker serves the model' });
    workers = [await WorkerProcess.start(workerArgs(redis))];
    const answer = await running;
    expect([answer.status, answer.body.choices]).toEqual([200, golden.body.choices]);
    await server.ready(10_000);
  });
});

describeWithRedis('a Redis', () => {
  it('that never comes does not stop server and worker from exiting on SIGTERM', async () => {
    const redis = await RedisServer.absent();
    const server = await ServerProcess.launch(['--model', MINI, '--redis', redis.url, ...SMALL]);
    const worker = await WorkerProcess.start(workerArgs(redis));
    await server.until(() => /sida .* serves/.test(server.output));
    expect(await Promise.all([server.stop(), worker.stop()])).toEqual([0, 0]);
    await redis.end();
  });

  it('that is reached does not keep a server whose port is taken', async () => {
    const redis = await RedisServer.start();
    const flags = ['--model', MINI, '--redis', redis.url, '--port', String(redis.port)];
    const server = await ServerProcess.launch(flags);
    expect(await server.exit).toBe(1);
    expect(server.output).toContain('another program listens there');
    await redis.end();
  });
});
