// A worker is killed in the middle of jobs; the other one runs them.
import { expect } from 'vitest';
import { eventually } from '../support/eventually.js';
import { jobsIn } from '../support/queue-look.js';
import { clusterFault, LOCK_MS, STALLED_MS } from './cluster.js';
import { longQuestions } from './golden.js';
import { keepAll } from './kept.js';

/** Half of them in each worker. */
const JOBS = 8;

clusterFault(
  'kill -9 of one of two workers in the middle of jobs',
  { workerFlags: ['--concurrency', String(JOBS / 2)] },
  async (cluster, report) => {
    const { subject, redis, workers } = cluster;
    const questions = await longQuestions(JOBS);
    const began = performance.now();
    await (await keepAll(subject.port, questions)).ended();
    const jobMs = performance.now() - began;

    // What it took cannot end before it dies; the other worker's half does.
    const engine = workers[0]!.enginePids()[0]!;
    process.kill(engine, 'SIGSTOP');
    const kept = await keepAll(subject.port, questions);
    await eventually(
      async () => (await jobsIn(redis, 'active')) === JOBS / 2 && (await jobsIn(redis, 'waiting')) === 0,
      'half of the jobs',
    );
    const killed = performance.now();
    await workers[0]!.kill();
    process.kill(engine, 'SIGKILL');
    const records = await kept.rightly(questions);
    const tookMs = performance.now() - killed;
    const twice = records.filter(({ attempts }) => attempts === 2).length;
    report.note(`${JOBS} jobs, ${twice} of them run again, each with one result`);
    expect(twice).toBe(JOBS / 2);
    await eventually(() => cluster.told.repeated('running') === JOBS / 2, 'the events of both runs');
    // One worker now runs what two did.
    const limit = (LOCK_MS + 2 * STALLED_MS + 2 * jobMs) / 1000;
    const quiet = { what: 'the lock, two checks and the jobs twice', value: limit, times: 2 };
    report.withinTime('all ended after', tookMs / 1000, Number(limit.toFixed(1)), 's', quiet);
    await cluster.replace(0);
  },
);
