// Ten minutes of load (SIDA_LOAD_MINUTES) on two servers. One of them, Redis and two workers are killed and frozen at
// random (SIDA_LOAD_SEED); each is brought back as a supervisor would.
import { setTimeout as delay } from 'node:timers/promises';
import { expect, vi } from 'vitest';
import { randomFrom } from '../support/malformed-requests.js';
import { ServerProcess } from '../support/server-process.js';
import { type Cluster, clusterFault } from './cluster.js';
import { aTimer } from './quiet.js';
import { Traffic } from './traffic.js';

const MINUTES = Number(process.env.SIDA_LOAD_MINUTES ?? 10);
const SEED = Number(process.env.SIDA_LOAD_SEED ?? Date.now() % 1_000_000);
vi.setConfig({ testTimeout: (MINUTES + 6) * 60_000 });

/** Every job is asked for again at the end. */
const PATIENT = ['--deadline', '120s', '--job-results', '1000000'];

/** A server without an engine. */
class Front {
  readonly #flags: string[];
  process: ServerProcess;

  private constructor(flags: string[], process: ServerProcess) {
    this.#flags = flags;
    this.process = process;
  }

  static async start(url: string): Promise<Front> {
    const own = ['--model', 'switch-mini', '--redis', url, '--no-worker'];
    const flags = [...own, ...PATIENT, '--log-level', 'warn'];
    const process = await ServerProcess.launch(flags);
    await process.ready(30_000);
    return new Front(flags, process);
  }

  async replace(): Promise<void> {
    await this.process.kill();
    this.process = await ServerProcess.launch(this.#flags, [], this.process.port);
  }
}

/** Until the time is over; each victim on its own, so that faults meet. Everything is up again when it resolves. */
async function kill(cluster: Cluster, front: Front): Promise<Map<string, number>> {
  const { workers, redis } = cluster;
  const counts = new Map<string, number>();
  const count = (what: string) => counts.set(what, (counts.get(what) ?? 0) + 1);
  const random = randomFrom(SEED);
  const end = performance.now() + MINUTES * 60_000;
  const some = (least: number, most: number) => 1000 * (least + (most - least) * random());
  const repeat = async (least: number, most: number, act: () => Promise<void>) => {
    for (;;) {
      const pauseMs = some(least, most);
      if (performance.now() + pauseMs > end) return;
      await delay(pauseMs);
      await act();
    }
  };
  const onWorker = async (at: number) => {
    const worker = workers[at]!;
    const [engine] = worker.enginePids();
    const draw = random();
    if (draw < 0.4) {
      count('workers killed');
      await worker.kill();
      await cluster.replace(at);
    } else if (draw >= 0.8) {
      count('workers frozen');
      worker.child.kill('SIGSTOP');
      await delay(some(1, 8));
      worker.child.kill('SIGCONT');
    } else if (engine !== undefined) {
      count('engines killed');
      process.kill(engine, 'SIGKILL');
    }
  };
  const onFront = async () => {
    if (random() < 0.6) {
      count('servers killed');
      await front.replace();
    } else {
      count('servers frozen');
      front.process.child.kill('SIGSTOP');
      await delay(some(1, 8));
      front.process.child.kill('SIGCONT');
    }
  };
  const onRedis = async () => {
    const draw = random();
    if (draw < 0.35) {
      count('Redis frozen');
      redis.freeze();
    } else {
      count(draw < 0.8 ? 'Redis killed' : 'Redis ended');
      await redis.down(draw < 0.8 ? 'SIGKILL' : 'SIGTERM');
    }
    await delay(some(0.2, 6));
    if (draw < 0.35) redis.thaw();
    else await redis.up();
  };
  await Promise.all([
    ...workers.map((_, at) => repeat(4, 16, () => onWorker(at))),
    repeat(6, 24, onFront),
    repeat(8, 30, onRedis),
  ]);
  return counts;
}

// A job that met `--attempts` kills is given up, and rightly so; here so many of them come that some job would.
const ATTEMPTS = ['--attempts', '20'];
const options = { workerFlags: ATTEMPTS, serverFlags: [...ATTEMPTS, ...PATIENT] };

const what = 'servers, workers, engines and Redis killed and frozen at random under load';
clusterFault(what, options, async (cluster, report) => {
  report.note(`${MINUTES} minutes, seed ${SEED}`);
  const { subject, golden, redis } = cluster;
  const front = await Front.start(redis.url);
  const common = { golden, seed: SEED, pauseMs: 150 };
  // A client of a server that dies gets no answer; its jobs live on.
  const kept = { ...common, port: front.process.port, sync: 0 };
  try {
    await Traffic.around({ ...common, port: subject.port }, (traffic) =>
      Traffic.around(kept, async (other) => {
        const counts = await kill(cluster, front);
        await Promise.all([traffic.stop(), other.stop()]);
        traffic.tell(report);
        other.tell(report);
        for (const [who, count] of counts) report.note(`${count} ${who}`);
        expect(counts.size, 'kinds of kills').toBeGreaterThan(0);
        const timer = await aTimer(40);
        report.withinTime('longest without an answer', traffic.longestGapMs / 1000, 25, 's', timer);
        report.withinTime('slowest refusal', traffic.slowestRefusalMs / 1000, 1.1, 's', {
          ...timer,
          times: 2,
        });
      }),
    );
  } finally {
    await front.process.stop();
  }
  report.note(`${cluster.told.repeated('running')} jobs taken again`);
});
