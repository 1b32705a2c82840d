/** Creates all metrics of a server process: its own and those of its engine and queue. */
import type { EngineHandle } from '../engine/engine-handle.js';
import { copyEngine } from '../engine/engine-metrics.js';
import { createMetrics, type Metrics } from '../observability/metrics.js';
import type { JobQueue } from '../queue/job-queue.js';
import { copyQueue } from '../queue/queue-metrics.js';

export function serverMetrics(engine: EngineHandle, queue: Pick<JobQueue, 'stats' | 'outage'>): Metrics {
  const metrics = createMetrics();
  copyQueue(metrics.registry, queue);
  copyEngine(metrics.registry, engine);
  return metrics;
}
