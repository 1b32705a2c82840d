/**
 * The contract of every JobQueue. The test file of a queue calls `queueConformance` with a function that makes the
 * queue with the scripted engine, and `engineConformance` with one that makes it with a real engine.
 */
import { describe } from 'vitest';
import { crashConformance } from './queue-conformance/crashes.js';
import type { MakeQueue } from './queue-conformance/harness.js';
import { idempotencyConformance } from './queue-conformance/idempotency.js';
import { recordConformance } from './queue-conformance/records.js';
import { retentionConformance } from './queue-conformance/retention.js';
import { runningConformance } from './queue-conformance/running.js';
import { watchConformance } from './queue-conformance/watching.js';

export { engineConformance } from './queue-conformance/engine.js';

/** `sequences` is the number of random sequences of events to test. */
export function queueConformance(name: string, make: MakeQueue, sequences = 60): void {
  describe(name, () => {
    runningConformance(make);
    crashConformance(make, sequences);
    recordConformance(make);
    watchConformance(make);
    idempotencyConformance(make);
    retentionConformance(make);
  });
}
