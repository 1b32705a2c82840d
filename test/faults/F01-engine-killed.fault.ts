// The engine process is killed in the middle of batches: of a server that is alone, and of a worker.
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import { eventually } from '../support/eventually.js';
import type { SidaProcess } from '../support/sida-process.js';
import { Cluster } from './cluster.js';
import { type FaultReport, fault } from './fault.js';
import { goldenQuestions } from './golden.js';
import { aStart } from './quiet.js';
import { Subject } from './subject.js';
import { Traffic } from './traffic.js';

const KILLS = 5;

/** Kills the engine of `owner`, whose health is at `url`, under load, each time once it is back. */
async function killEngines(
  subject: Subject,
  { owner, url }: { owner: SidaProcess; url: string },
  traffic: Traffic,
  report: FaultReport,
): Promise<void> {
  let [slowest, down] = [0, 0];
  for (let kill = 0; kill < KILLS; kill += 1) {
    // Jobs that met one kill are done before the next: two in a row would rightly be held against them.
    await delay(1_500);
    const [engine] = owner.enginePids();
    process.kill(engine!, 'SIGKILL');
    const killed = performance.now();
    const probe = async () => {
      down += (await subject.ask('/health/live')).status === 200 ? 0 : 1;
    };
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
  expect(down, 'probes of the API that failed').toBe(0);
  report.withinTime('ready and answering after', slowest / 1000, 5, 's', await aStart(6));
}

fault('F1', 'kill -9 of the engine process, jobs in memory', async (report) => {
  const golden = await goldenQuestions();
  const subject = await Subject.start('--threads', '1');
  try {
    await Traffic.around({ port: subject.port, golden }, (traffic) =>
      killEngines(subject, { owner: subject.server, url: subject.server.url }, traffic, report),
    );
    const of = await subject.metrics();
    expect(of('sida_engine_restarts_total')).toBe(KILLS);
    const again = of('sida_queue_retries_total');
    report.note(`${again} runs repeated`);
    expect(again).toBeGreaterThan(0);
    await subject.recovered(report);
  } finally {
    await subject.stop();
  }
});

fault('F1', "kill -9 of a worker's engine process, jobs in Redis", async (report) => {
  const cluster = await Cluster.start({ workerFlags: ['--metrics-port', '0'] });
  try {
    const { subject, golden, workers } = cluster;
    const [owner] = workers;
    const url = /metrics at (\S+)\/metrics/.exec(owner!.output)![1]!;
    await Traffic.around({ port: subject.port, golden }, (traffic) =>
      killEngines(subject, { owner: owner!, url }, traffic, report),
    );
    const again = (await subject.metrics())('sida_queue_retries_total');
    report.note(`${again} runs repeated`);
    await cluster.recovered(report);
  } finally {
    await cluster.end();
  }
});
