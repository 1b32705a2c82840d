// Ten minutes of load (SIDA_LOAD_MINUTES) on a server, Redis and two workers that are killed at random
// (SIDA_LOAD_SEED).
import { expect, vi } from 'vitest';
import { Cluster } from './cluster.js';
import { fault } from './fault.js';
import { Kills } from './kills.js';
import { aTimer } from './quiet.js';
import { Traffic } from './traffic.js';

const MINUTES = Number(process.env.SIDA_LOAD_MINUTES ?? 10);
const SEED = Number(process.env.SIDA_LOAD_SEED ?? Date.now() % 1_000_000);
vi.setConfig({ testTimeout: (MINUTES + 6) * 60_000 });

// A job that met `--attempts` kills is given up, and rightly so; here so many of them come that some job would.
const ATTEMPTS = ['--attempts', '20'];

fault('load', 'workers, engines and Redis killed at random under load', async (report) => {
  report.note(`${MINUTES} minutes`);
  report.note(`seed ${SEED}`);
  const cluster = await Cluster.start({
    workerFlags: ATTEMPTS,
    serverFlags: [...ATTEMPTS, '--deadline', '120s'],
  });
  try {
    const { subject, golden } = cluster;
    const kills = new Kills(cluster, SEED, 60 * MINUTES);
    await Traffic.around({ port: subject.port, golden, seed: SEED, pauseMs: 150 }, async (traffic) => {
      await kills.run();
      await traffic.stop();
      traffic.tell(report);
      const timer = await aTimer(40);
      report.withinTime('longest without an answer', traffic.longestGapMs / 1000, 25, 's', timer);
      report.withinTime('slowest refusal', traffic.slowestRefusalMs / 1000, 1.1, 's', { ...timer, times: 2 });
    });
    for (const [what, count] of kills.counts) report.note(`${count} ${what}`);
    report.note(`${cluster.told.repeated('running')} jobs taken again`);
    expect(kills.counts.size, 'kinds of kills').toBeGreaterThan(0);
    await cluster.recovered(report);
  } finally {
    await cluster.end();
  }
});
