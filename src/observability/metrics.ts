/** Prometheus metrics. Events are counted and the reader divides; the engine's own counters are copied at a scrape. */
import { Counter, collectDefaultMetrics, Histogram, Registry } from 'prom-client';
import type { EngineHandle } from '../engine/engine-handle.js';
import type { JobOutcome, JobQueue, QueueStats } from '../queue/job-queue.js';
import { copyCounter, copyGauge } from './copied-metrics.js';
import { copyEngine } from './engine-metrics.js';
import { copyKeptJobs } from './kept-jobs.js';

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

export interface HttpRequestSample {
  route: string;
  method: string;
  status: number;
  seconds: number;
}

export interface Metrics {
  readonly registry: Registry;
  observeRequest(sample: HttpRequestSample): void;
  /** A connection or request that no route saw: malformed, timed out, or over the connection limit. */
  countConnectionError(reason: string): void;
  observeOutcome(kind: string, outcome: JobOutcome): void;
  /** A request was refused before it came to the queue, by its caller's tokens or its share of the queue. */
  countRefusal(reason: 'rate' | 'share'): void;
  /** A stream was closed because its reader fell too far behind. */
  countSlowReader(): void;
}

export function createMetrics(engine: EngineHandle, queue: Pick<JobQueue, 'stats' | 'outage'>): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, prefix: 'sida_' });
  copyQueue(registry, queue);
  copyKeptJobs(registry, queue);
  copyEngine(registry, engine);

  const registers = [registry];
  const requests = new Counter({
    name: 'sida_http_requests_total',
    help: 'HTTP requests by route, method and status; 499 is a client that went away',
    labelNames: ['route', 'method', 'status'],
    registers,
  });
  const requestSeconds = new Histogram({
    name: 'sida_http_request_duration_seconds',
    help: 'Seconds from the arrival of a request to the end of its answer',
    labelNames: ['route', 'method'],
    buckets: SECONDS,
    registers,
  });
  const connectionErrors = new Counter({
    name: 'sida_http_connection_errors_total',
    help: 'Connections ended before a route was found, by reason',
    labelNames: ['reason'],
    registers,
  });
  const slowReaders = new Counter({
    name: 'sida_http_slow_readers_total',
    help: 'Streams closed because their reader fell too far behind',
    registers,
  });
  const refusals = new Counter({
    name: 'sida_admission_refused_total',
    help: 'Requests refused because of their key: rate (--rate-limit) or share (the key holds its part of the queue)',
    labelNames: ['reason'],
    registers,
  });
  const jobSeconds = Object.fromEntries(
    (['queue', 'tokenize', 'inference'] as const).map((part) => [
      part,
      new Histogram({
        name: `sida_job_${part}_seconds`,
        help: `Seconds of a job spent in ${part === 'queue' ? 'the queue' : part}`,
        labelNames: ['kind'],
        buckets: SECONDS,
        registers,
      }),
    ]),
  ) as Record<'queue' | 'tokenize' | 'inference', Histogram>;

  return {
    registry,
    observeRequest({ route, method, status, seconds }) {
      requests.inc({ route, method, status });
      requestSeconds.observe({ route, method }, seconds);
    },
    countConnectionError: (reason) => connectionErrors.inc({ reason }),
    countRefusal: (reason) => refusals.inc({ reason }),
    countSlowReader: () => slowReaders.inc(),
    observeOutcome(kind, { result, queueMs }) {
      jobSeconds.queue.observe({ kind }, (queueMs + result.timing.queueMs) / 1000);
      jobSeconds.tokenize.observe({ kind }, result.timing.tokenizeMs / 1000);
      jobSeconds.inference.observe({ kind }, result.timing.inferenceMs / 1000);
    },
  };
}

function copyQueue(registry: Registry, queue: Pick<JobQueue, 'stats' | 'outage'>): void {
  copyGauge(
    registry,
    'sida_queue_up',
    '1 while the queue takes jobs and a worker runs them; 0 without Redis or a worker (--redis)',
    () => (queue.outage === undefined ? 1 : 0),
  );
  copyCounter(
    registry,
    'sida_queue_outages_total',
    'Times Redis was lost: the connection broke, or no answer came',
    () => queue.stats.outages,
  );
  copyGauge(
    registry,
    'sida_queue_redis_seconds',
    'Seconds Redis took for its last answer, the way included; asked twice a second',
    () => queue.stats.redisSeconds,
  );
  copyGauge(registry, 'sida_queue_waiting_jobs', 'Jobs waiting for the engine', () => queue.stats.waiting);
  copyGauge(registry, 'sida_queue_active_jobs', 'Jobs in the engine', () => queue.stats.active);
  copyCounter(registry, 'sida_queue_accepted_total', 'Jobs accepted', () => queue.stats.accepted);
  copyCounter(
    registry,
    'sida_queue_retries_total',
    'Runs repeated after a crash of the engine',
    () => queue.stats.retried,
  );
  copyCounter(
    registry,
    'sida_queue_fenced_total',
    'Late results dropped because another run had replaced theirs; of the whole queue in Redis',
    () => queue.stats.fenced,
  );
  const outcomes = ['completed', 'failed', 'cancelled', 'refused', 'expired', 'quarantined'] as const;
  new Counter({
    name: 'sida_queue_jobs_total',
    help: 'Jobs by outcome; a quarantined job counts as failed too',
    labelNames: ['outcome'],
    registers: [registry],
    collect() {
      this.reset();
      for (const outcome of outcomes) this.inc({ outcome }, queue.stats[outcome satisfies keyof QueueStats]);
    },
  });
}
