// The API process stops in its tracks for longer than its engine may be silent. The engine has done nothing wrong.
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import { fault } from './fault.js';
import { Subject } from './subject.js';

const FROZEN_MS = 13_000;

fault('F3', 'a server frozen (SIGSTOP) for longer than its engine may be silent', async (report) => {
  const subject = await Subject.start();
  try {
    const engines = subject.server.enginePids();
    for (let times = 0; times < 2; times += 1) {
      subject.server.child.kill('SIGSTOP');
      await delay(FROZEN_MS);
      subject.server.child.kill('SIGCONT');
      await subject.good();
      // Time for a kill to be seen.
      await delay(1_500);
      expect(subject.server.enginePids()).toEqual(engines);
    }
    const metric = await subject.metrics();
    expect([metric('sida_engine_restarts_total'), metric('sida_engine_ready')]).toEqual([0, 1]);
    report.note(`twice ${FROZEN_MS / 1000} s: the same engine answers, rightly`);
    await subject.recovered(report);
  } finally {
    await subject.stop();
  }
});
