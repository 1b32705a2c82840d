// Workers that pass jobs on to the one that holds their experts. Real processes, a real redis-server.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { eventually } from '../support/eventually.js';
import { describeWithRedis, RedisServer } from '../support/redis.js';
import { MINI, ServerProcess, sst2 } from './server-process.js';
import { WorkerProcess } from './worker-process.js';

const sentence = sst2()[0]!;
const BODY = { task: 'sst2', input: sentence.text };
// What one sentence needs fits, so that whoever ran it holds it.
const ENGINE = ['--placement', 'experts', '--memory-budget', '60%', '--threads', '1', '--log-level', 'info'];
const FAST = ['--lock-duration', '2s', '--stalled-interval', '500ms', '--metrics-port', '0'];

/** Figures of a worker, with their labels as they stand there. */
async function figuresOf(worker: WorkerProcess): Promise<(name: string) => number> {
  const url = /metrics at (\S+)/.exec(worker.output)![1]!;
  const lines = (await (await fetch(url)).text()).split('\n');
  return (name) => Number(lines.find((line) => line.startsWith(`${name} `))!.slice(name.length + 1));
}

const fate = (name: string) => `sida_placement_jobs_total{fate="${name}"}`;

describeWithRedis('two workers, one of which holds the experts', () => {
  let redis: RedisServer;
  let server: ServerProcess;
  let warm: WorkerProcess;
  let cold: WorkerProcess;
  let golden: unknown;

  const start = () => WorkerProcess.start(['--redis', redis.url, '--model', MINI, ...ENGINE, ...FAST]);
  /** Resolves when so many workers know of each other. */
  const known = (count: number) =>
    redis.use((client) =>
      eventually(async () => {
        const [key] = await client.keys('sida:*:ledger:summaries');
        return key !== undefined && (await client.hlen(key)) === count;
      }, `${count} summaries`),
    );

  beforeAll(async () => {
    redis = await RedisServer.start();
    const args = ['--model', 'switch-mini', '--redis', redis.url, '--no-worker', '--log-level', 'warn'];
    [server, warm] = await Promise.all([ServerProcess.launch(args), start()]);
    await server.ready(60_000);
    for (let i = 0; i < 5; i += 1) golden = (await server.post('/v1/classify', BODY)).body.data;
    cold = await start();
    await known(2);
  });
  afterAll(async () => {
    await Promise.all([server, warm, cold].map((each) => each?.stop()));
    await redis.end();
  });

  it('the one that holds them gets the job, whoever it came up at, and moves nothing', async () => {
    const moved = 'sida_experts_moved_bytes_total';
    const before = await figuresOf(warm);
    for (let i = 0; i < 40; i += 1) {
      const { status, body } = await server.post('/v1/classify', BODY);
      expect([status, body.data]).toEqual([200, golden]);
    }
    const [at, other] = [await figuresOf(warm), await figuresOf(cold)];
    expect(at(fate('received'))).toBeGreaterThan(0);
    expect(other(fate('passed'))).toBe(at(fate('received')));
    // A worker's idea of another's load is some milliseconds old: now and then one is kept for it.
    expect(other('sida_batches_total')).toBeLessThanOrEqual(4);
    expect(at(moved)).toBe(before(moved));
  });

  it('kept jobs are counted and logged by the worker that ended them', async () => {
    const ended = 'sida_queue_jobs_total{outcome="completed"}';
    const count = async () => (await figuresOf(warm))(ended) + (await figuresOf(cold))(ended);
    const before = await count();
    const { body } = await server.post('/v1/jobs', { type: 'classify', ...BODY });
    await server.until(async () => (await server.get(`/v1/jobs/${body.id}`)).body.status === 'completed');
    await eventually(async () => (await count()) === before + 1, 'the count');
    const lines = `${warm.output}${cold.output}`.split('\n').filter((line) => line.includes('job ended'));
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      { jobId: body.id, kind: 'classify', status: 'completed', attempts: 1 },
    ]);
    expect(`${warm.output}${cold.output}`).not.toContain(sentence.text);
  });

  it('a killed one neither loses nor holds up a job that was being passed on to it', async () => {
    // It may have kept a job before, and hold the experts by now: a fresh one holds none.
    await cold.stop();
    cold = await start();
    await known(2);
    // Frozen, it hears no offer; then it is killed before it could take one.
    warm.child.kill('SIGSTOP');
    let listening = () => {};
    const listens = new Promise<void>((resolve) => {
      listening = resolve;
    });
    const offered = redis.use(async (client) => {
      const offer = new Promise<void>((resolve) => {
        client.on('pmessage', (_pattern, _channel, message: string) => {
          if (message.startsWith('offer:')) resolve();
        });
      });
      await client.psubscribe('sida:*:inbox:*');
      listening();
      await offer;
      await warm.kill();
    });
    await listens;
    // Several, since the frozen one may be told of the first.
    const jobs = await Promise.all(
      [1, 2, 3, 4].map(async () => (await server.post('/v1/jobs', { type: 'classify', ...BODY })).body.id),
    );
    await offered;
    for (const id of jobs) {
      await server.until(async () => (await server.get(`/v1/jobs/${id}`)).body.status === 'completed');
    }
    const records = await Promise.all(jobs.map(async (id) => (await server.get(`/v1/jobs/${id}`)).body));
    expect(records.map(({ answer }) => answer.data)).toEqual(jobs.map(() => golden));
    const figures = await figuresOf(cold);
    expect(figures(fate('returned'))).toBeGreaterThan(0);
    // No lock ran out: the run that made the offer went on.
    expect(records.map(({ attempts }) => attempts)).toEqual(jobs.map(() => 1));
    expect(figures('sida_queue_fenced_total')).toBe(0);
    warm = await start();
  });

  it('says over HTTP how it is, and nothing else', async () => {
    const url = /metrics at (\S+)\/metrics/.exec(cold.output)![1]!;
    expect((await fetch(`${url}/health/ready`)).status).toBe(200);
    expect((await fetch(`${url}/health/live`)).status).toBe(200);
    expect((await fetch(`${url}/v1/models`)).status).toBe(404);
    expect((await fetch(`${url}/metrics`, { method: 'POST' })).status).toBe(405);
  });
});
