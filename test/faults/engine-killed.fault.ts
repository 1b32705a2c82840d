// The engine process is killed in the middle of batches: of a server that is alone, and of a worker.
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import { eventually } from '../support/eventually.js';
import type { SidaProcess } from '../support/sida-process.js';
import { clusterFault } from './cluster.js';
import type { FaultReport } from './fault.js';
import { goldenQuestions } from './golden.js';
import { aStart } from './quiet.js';
import { type Subject, serverFault } from './subject.js';
import { Traffic, type TrafficOptions } from './traffic.js';

const KILLS = 5;

interface Target {
  subject: Subject;
  golden: TrafficOptions['golden'];
  /** The process whose engine is killed, and where its health is. */
  owner: SidaProcess;
  url: string;
}

/** Kills the engine under load, each time once it is back; gives the runs that were repeated. */
async function killEngines(report: FaultReport, { subject, golden, owner, url }: Target): Promise<number> {
  let [slowest, down] = [0, 0];
  const probe = async () => {
    down += (await subject.ask('/health/live')).status === 200 ? 0 : 1;
  };
  await Traffic.around({ port: subject.port, golden }, async (traffic) => {
    for (let kill = 0; kill < KILLS; kill += 1) {
      // Jobs that met one kill are done before the next: two in a row would rightly be held against them.
      await delay(1_500);
      const [engine] = owner.enginePids();
      process.kill(engine!, 'SIGKILL');
      const killed = performance.now();
      await eventually(async () => {
        await probe();
        return owner.enginePids().some((pid) => pid !== engine);
      }, 'another engine');
      const before = traffic.completed;
      await eventually(async () => {
        await probe();
        return traffic.completed > before && (await fetch(`${url}/health/ready`)).status === 200;
      }, 'an answer');
      slowest = Math.max(slowest, performance.now() - killed);
    }
    await delay(1_000);
    await traffic.stop();
    report.note(`${KILLS} engines killed`);
    traffic.tell(report);
  });
  expect(down, 'probes of the API that failed').toBe(0);
  report.withinTime('ready and answering after', slowest / 1000, 5, 's', await aStart(6));
  const again = (await subject.metrics())('sida_queue_retries_total');
  report.note(`${again} runs repeated`);
  return again;
}

serverFault(
  'kill -9 of the engine process, jobs in memory',
  { args: ['--threads', '1'] },
  async (subject, report) => {
    const { server } = subject;
    const target = { subject, golden: await goldenQuestions(), owner: server, url: server.url };
    expect(await killEngines(report, target)).toBeGreaterThan(0);
    expect((await subject.metrics())('sida_engine_restarts_total')).toBe(KILLS);
  },
);

clusterFault(
  "kill -9 of a worker's engine process, jobs in Redis",
  { workerFlags: ['--metrics-port', '0'] },
  async ({ subject, golden, workers }, report) => {
    const owner = workers[0]!;
    const url = /metrics at (\S+)\/metrics/.exec(owner.output)![1]!;
    await killEngines(report, { subject, golden, owner, url });
  },
);
