// Servers and workers that share a Redis: answers, faults, isolation. The processes and redis-server are real.
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { EDITS, editJobs } from '../../../support/edited-jobs.js';
import { eventually } from '../../../support/eventually.js';
import { inLedger, someRun } from '../../../support/ledger-look.js';
import { describeWithRedis, RedisServer } from '../../../support/redis.js';
import {
  type Answer,
  classifyAll,
  MINI,
  metricsOf,
  ServerProcess,
  sst2,
} from '../../../support/server-process.js';
import { WorkerProcess } from '../../../support/worker-process.js';

const sentences = sst2().slice(0, 320);
const COMPLETION = { prompt: 'The film was <extra_id_0>.', max_tokens: 40, return_token_ids: true };
// Short times keep the tests fast.
const FAST = ['--lock-duration', '2s'];
const SMALL = ['--memory-budget', '20%', '--threads', '1', '--log-level', 'warn'];

const workerArgs = (redis: RedisServer) => ['--redis', redis.url, '--model', MINI, ...SMALL, ...FAST];

/** Sends one request for each sentence. Resolves with the statuses and answers in order. */
function askOneByOne(server: ServerProcess, count: number): Promise<Answer[]> {
  const ask = (i: number) =>
    server.post('/v1/classify', { task: 'sst2', input: sentences[i % sentences.length]!.text });
  return Promise.all(Array.from({ length: count }, (_, i) => ask(i)));
}

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
    embedded = await ServerProcess.start(['--model', MINI, ...SMALL]);
    server = await ServerProcess.launch([
      '--model',
      'switch-mini',
      '--redis',
      redis.url,
      '--no-worker',
      '--log-level',
      'warn',
    ]);
    expect((await server.request('GET', '/health/live').catch(() => undefined))?.status ?? 200).toBe(200);
    workers = await Promise.all([0, 1].map(() => WorkerProcess.start(workerArgs(redis))));
    await server.ready(30_000);
  });
  afterAll(async () => {
    await Promise.all([embedded.stop(), server.stop(), ...workers.map((worker) => worker.stop())]);
    await redis.end();
  });

  it('gives the same answers as an embedded engine', async () => {
    expect(await classifyAll(server, sentences)).toEqual(await classifyAll(embedded, sentences));
    const whole = await server.post('/v1/completions', COMPLETION);
    const golden = await embedded.post('/v1/completions', COMPLETION);
    expect(whole.status).toBe(200);
    expect(whole.body.choices).toEqual(golden.body.choices);
    const tokens = await server.post('/v1/tokenize', { input: 'a fine film' });
    expect(tokens.body).toEqual((await embedded.post('/v1/tokenize', { input: 'a fine film' })).body);
    expect((await server.get('/v1/models')).body.data[0].fingerprint).toBe(
      (await embedded.get('/v1/models')).body.data[0].fingerprint,
    );
  });

  it('streams the same text that it answers whole', async () => {
    const whole = await server.post('/v1/completions', COMPLETION);
    expect(await streamed(server)).toBe(whole.body.choices[0].text);
  });

  it('refuses invalid requests and those that need an engine of its own', async () => {
    expect((await server.post('/v1/classify', { task: 'sst2', input: '' })).status).toBeLessThan(500);
    const unknown = await server.post('/v1/classify', { task: 'nothing', input: 'a' });
    expect([unknown.status, unknown.body.error.code]).toEqual([400, 'invalid_request']);
    const elsewhere = await server.get('/admin/experts');
    expect([elsewhere.status, elsewhere.body.error.code]).toEqual([422, 'cannot_run']);
  });

  it('answers every request correctly when a worker is killed under load', async () => {
    const golden = await askOneByOne(embedded, 200);
    const running = askOneByOne(server, 200);
    await someRun(redis);
    await workers[0]!.kill();
    const answers = await running;
    expect(answers.map(({ status }) => status)).toEqual(golden.map(() => 200));
    expect(answers.map(({ body }) => body.data)).toEqual(golden.map(({ body }) => body.data));
    workers[0] = await WorkerProcess.start(workerArgs(redis));
  });

  it('drops the late answer of a worker that was frozen', async () => {
    const [first, second] = workers as [WorkerProcess, WorkerProcess];
    const fenced = async () => (await metricsOf(server))('sida_queue_fenced_total');
    const before = await fenced();
    const completion = { ...COMPLETION, max_tokens: 300 };
    const golden = await embedded.post('/v1/completions', completion);
    // Only the first worker can claim the job.
    await second.stop();
    const running = server.post('/v1/completions', completion);
    await someRun(redis);
    first.child.kill('SIGSTOP');
    workers[1] = await WorkerProcess.start(workerArgs(redis));
    const answer = await running;
    first.child.kill('SIGCONT');
    expect([answer.status, answer.body.choices]).toEqual([200, golden.body.choices]);
    await server.until(async () => (await fenced()) - before === 1);
    await delay(1_000);
    expect((await fenced()) - before).toBe(1);
    expect((await server.post('/v1/completions', completion)).body.choices).toEqual(golden.body.choices);
  });

  it('lets a worker finish its runs on SIGTERM', async () => {
    const running = askOneByOne(server, 100);
    await someRun(redis);
    expect(await workers[0]!.stop()).toBe(0);
    expect((await running).map(({ status }) => status)).toEqual(Array.from({ length: 100 }, () => 200));
    workers[0] = await WorkerProcess.start(workerArgs(redis));
  });

  it('requeues a job that a worker cannot finish in time, and another worker runs it', async () => {
    const completion = { ...COMPLETION, max_tokens: 300 };
    const golden = await embedded.post('/v1/completions', completion);
    await Promise.all(workers.map((worker) => worker.stop()));
    workers[0] = await WorkerProcess.start([...workerArgs(redis), '--drain', '10ms']);
    const running = server.post('/v1/completions', completion);
    await someRun(redis);
    expect(await workers[0].stop()).toBe(0);
    expect(await inLedger(redis, 'queued')).toBe(1);
    workers = await Promise.all([0, 1].map(() => WorkerProcess.start(workerArgs(redis))));
    const answer = await running;
    expect([answer.status, answer.body.choices]).toEqual([200, golden.body.choices]);
  });

  it('reports that no worker serves the model when all have gone, and continues with the next one', async () => {
    await Promise.all(workers.map((worker) => worker.stop()));
    await server.until(async () => (await server.get('/health/ready')).status === 503);
    const { body } = await server.get('/health/ready');
    expect(body).toMatchObject({ phase: 'queue_unavailable', reason: 'No worker serves the model' });
    workers = await Promise.all([0, 1].map(() => WorkerProcess.start(workerArgs(redis))));
    await server.ready(10_000);
    expect((await askOneByOne(server, 4)).map(({ status }) => status)).toEqual([200, 200, 200, 200]);
  });
});

describeWithRedis('an outage of Redis', () => {
  it.each(['SIGTERM', 'SIGKILL', 'SIGSTOP'] as const)(
    'by %s for 2 s under load loses no accepted job; the server refuses quickly and recovers',
    async (signal) => {
      const redis = await RedisServer.start();
      const server = await ServerProcess.start(['--model', MINI, '--redis', redis.url, ...SMALL, ...FAST]);
      try {
        const first = await askOneByOne(server, 20);
        expect(first.map(({ status }) => status)).toEqual(first.map(() => 200));
        const golden = first.map(({ body }) => body.data);
        const seen: { status: number; code?: string; answer?: unknown; right?: unknown }[] = [];
        let loading = true;
        const client = async (offset: number) => {
          for (let i = offset; loading; i += 1) {
            const { status, body } = await server.post('/v1/classify', {
              task: 'sst2',
              input: sentences[i % 20]!.text,
            });
            seen.push({ status, code: body.error?.code, answer: body.data, right: golden[i % 20] });
            if (status !== 200) await delay(20);
          }
        };
        const clients = Promise.all([0, 3, 6, 9].map(client));
        await delay(1_000);
        if (signal === 'SIGSTOP') redis.freeze();
        else await redis.down(signal);
        await server.until(async () => (await server.get('/health/ready')).status === 503);
        expect((await server.get('/health/ready')).body.phase).toBe('queue_unavailable');
        const refused = await askOneByOne(server, 3);
        expect(refused.map(({ status, body }) => [status, body.error.code])).toEqual(
          refused.map(() => [503, 'not_ready']),
        );
        await delay(2_000);
        if (signal === 'SIGSTOP') redis.thaw();
        else await redis.up();
        await server.ready(10_000);
        await delay(1_000);
        loading = false;
        await clients;
        // Every request ended with an answer or a refusal.
        const failed = seen.filter(({ status, code }) => status !== 200 && code !== 'not_ready');
        expect(failed).toEqual([]);
        const answers = seen.filter(({ status }) => status === 200);
        expect(answers.map(({ answer }) => answer)).toEqual(answers.map(({ right }) => right));
        const last = await askOneByOne(server, 20);
        expect(last.map(({ body }) => body.data)).toEqual(golden);
        expect(await server.stop()).toBe(0);
      } finally {
        await server.stop();
        await redis.end();
      }
    },
  );

  it('for lack of memory causes refusals until memory is free', async () => {
    const redis = await RedisServer.start();
    const server = await ServerProcess.start(['--model', MINI, '--redis', redis.url, ...SMALL]);
    try {
      await redis.use((client) => client.config('SET', 'maxmemory', '1mb'));
      const [refused] = await askOneByOne(server, 1);
      expect([refused!.status, refused!.body.error.code]).toEqual([503, 'not_ready']);
      expect(refused!.body.error.message).toBe('Redis has no memory left; try again later');
      await redis.use((client) => client.config('SET', 'maxmemory', '0'));
      expect((await askOneByOne(server, 5)).map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
    } finally {
      await server.stop();
      await redis.end();
    }
  });

  it('that never ends does not stop server and worker from exiting on SIGTERM', async () => {
    const redis = await RedisServer.absent();
    const server = await ServerProcess.launch(['--model', MINI, '--redis', redis.url, ...SMALL]);
    const worker = await WorkerProcess.start(workerArgs(redis));
    await server.until(() => /sida .* serves/.test(server.output));
    expect(await Promise.all([server.stop(), worker.stop()])).toEqual([0, 0]);
    await redis.end();
  });

  it('at the start is reported, and the server serves once Redis is up', async () => {
    const redis = await RedisServer.absent();
    const server = await ServerProcess.launch(['--model', MINI, '--redis', redis.url, ...SMALL]);
    try {
      await server.until(() =>
        server.get('/health/ready').then(
          ({ status }) => status === 503,
          () => false,
        ),
      );
      const { body } = await server.get('/health/ready');
      expect(body).toMatchObject({ phase: 'queue_unavailable', reason: 'Redis cannot be reached' });
      await redis.up();
      await server.ready(30_000);
      expect((await askOneByOne(server, 2)).map(({ status }) => status)).toEqual([200, 200]);
    } finally {
      await server.stop();
      await redis.end();
    }
  });
});

describeWithRedis('a server whose port is taken', () => {
  it('exits, although it has reached Redis', async () => {
    const redis = await RedisServer.start();
    const server = await ServerProcess.launch([
      '--model',
      MINI,
      '--redis',
      redis.url,
      '--port',
      String(redis.port),
    ]);
    expect(await server.exit).toBe(1);
    expect(server.output).toContain('another program listens there');
    await redis.end();
  });
});

describeWithRedis('a server that is killed', () => {
  it('leaves its jobs in Redis, and the next server answers for them and their idempotency keys', async () => {
    const redis = await RedisServer.start();
    const args = ['--model', 'switch-mini', '--redis', redis.url, '--no-worker', '--log-level', 'warn'];
    const first = await ServerProcess.launch(args);
    const worker = await WorkerProcess.start(workerArgs(redis));
    let second: ServerProcess | undefined;
    try {
      await first.ready(30_000);
      const post = async (server: ServerProcess, i: number) => {
        const response = await fetch(`${server.url}/v1/jobs`, {
          method: 'POST',
          headers: { 'content-type': 'application/json', 'idempotency-key': `key ${i}`.replace(' ', '-') },
          body: JSON.stringify({ type: 'classify', task: 'sst2', input: sentences[i]!.text }),
        });
        return { status: response.status, body: (await response.json()) as { id: string } };
      };
      const numbers = Array.from({ length: 50 }, (_, i) => i);
      const accepted = await Promise.all(numbers.map((i) => post(first, i)));
      expect(accepted.map(({ status }) => status)).toEqual(numbers.map(() => 202));
      first.child.kill('SIGKILL');
      second = await ServerProcess.start(args);
      const again = await Promise.all(numbers.map((i) => post(second!, i)));
      expect(again.map(({ body }) => body.id)).toEqual(accepted.map(({ body }) => body.id));
      const golden = await askOneByOne(second, 50);
      for (const [i, { body }] of accepted.entries()) {
        await second.until(
          async () => (await second!.get(`/v1/jobs/${body.id}`)).body.status === 'completed',
        );
        const job = (await second.get(`/v1/jobs/${body.id}`)).body;
        expect(job.answer.data).toEqual(golden[i]!.body.data);
        expect(job.attempts).toBe(1);
      }
    } finally {
      await Promise.all([second?.stop(), worker.stop()]);
      await redis.end();
    }
  });
});

describeWithRedis('two models on one Redis', () => {
  it('never mixes their jobs', async () => {
    const redis = await RedisServer.start();
    // The rounded weights give other answers, so they count as another model.
    const exact = ['--model', MINI, '--redis', redis.url, ...SMALL];
    const rounded = ['--model', MINI, '--experts', 'int8', '--redis', redis.url, ...SMALL];
    const servers = await Promise.all([ServerProcess.start(exact), ServerProcess.start(rounded)]);
    try {
      const fingerprints = await Promise.all(
        servers.map(async (server) => (await server.get('/v1/models')).body.data[0].fingerprint),
      );
      expect(fingerprints[0]).not.toBe(fingerprints[1]);
      const scores = (answers: Answer[]) => answers.map(({ body }) => body.data[0].scores.positive);
      const alone = [scores(await askOneByOne(servers[0]!, 30)), scores(await askOneByOne(servers[1]!, 30))];
      expect(alone[0]).not.toEqual(alone[1]);
      const together = await Promise.all(servers.map((server) => askOneByOne(server, 30)));
      expect(together.map(scores)).toEqual(alone);
      // A server without a worker cannot choose between two models of the same name.
      const third = await ServerProcess.launch([
        '--model',
        'switch-mini',
        '--redis',
        redis.url,
        '--no-worker',
      ]);
      await third.until(async () =>
        /Workers serve 2 models/.test(
          (await third.get('/health/ready').catch(() => undefined))?.body.reason ?? '',
        ),
      );
      await third.stop();
    } finally {
      await Promise.all(servers.map((server) => server.stop()));
      await redis.end();
    }
  });
});

describeWithRedis('edited job data in Redis', () => {
  it('fails the job with an error, and the worker survives', async () => {
    const redis = await RedisServer.start();
    const server = await ServerProcess.launch([
      '--model',
      'switch-mini',
      '--redis',
      redis.url,
      '--no-worker',
      '--deadline',
      '30s',
    ]);
    let worker = await WorkerProcess.start(workerArgs(redis));
    try {
      await server.ready(30_000);
      await worker.stop();
      const ask = () => server.post('/v1/classify', { task: 'sst2', input: 'a fine film' });
      const answers = EDITS.map(() => ask());
      await eventually(async () => (await inLedger(redis, 'queued')) === EDITS.length, 'the jobs');
      await editJobs(
        redis,
        EDITS.map(([, edit]) => edit),
      );
      worker = await WorkerProcess.start(workerArgs(redis));
      for (const { status, body } of await Promise.all(answers)) {
        expect([500, 503]).toContain(status);
        expect(['internal', 'not_ready']).toContain(body.error.code);
      }
      expect((await ask()).status).toBe(200);
      expect(worker.child.exitCode).toBeNull();
    } finally {
      await Promise.all([server.stop(), worker.stop()]);
      await redis.end();
    }
  });
});
