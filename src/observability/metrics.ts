/** The server's Prometheus metrics. They count events, and the reader derives ratios. */
import { Counter, collectDefaultMetrics, Histogram, Registry } from 'prom-client';
import type { JobTiming } from '../protocol/engine-messages.js';
import { SECONDS } from './buckets.js';
import type { TokenTimes } from './token-times.js';

interface HttpRequestSample {
  route: string;
  method: string;
  status: number;
  seconds: number;
}

/** A job that has a result. */
interface JobSample {
  result: { timing: JobTiming };
  /** Milliseconds from submission to the start of the run that gave the result. */
  queueMs: number;
}

/** How long jobs take. */
export interface JobTimes {
  observeOutcome(kind: string, outcome: JobSample): void;
}

export interface Metrics extends JobTimes, TokenTimes {
  readonly registry: Registry;
  /** The text of a scrape. */
  text(): Promise<string>;
  observeRequest(sample: HttpRequestSample): void;
  /** Counts a connection or request that reached no route: malformed, timed out, or over the connection limit. */
  countConnectionError(reason: string): void;
  /** Counts a request refused before the queue. */
  countRefusal(reason: 'rate' | 'bytes' | 'share' | 'quote'): void;
  /** Counts a stream closed because its reader fell too far behind. */
  countSlowReader(): void;
}

/** Creates the metrics of a server process. serverMetrics adds those of its models. */
export function createMetrics(): Omit<Metrics, keyof JobTimes | keyof TokenTimes> {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, prefix: 'sida_' });
  // Gauges must not be named as totals. These are the sums of metrics that tell the types apart.
  for (const what of ['handles', 'requests', 'resources']) {
    registry.removeSingleMetric(`sida_nodejs_active_${what}_total`);
  }

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
    help: 'Requests refused before the queue: rate (--rate-limit), bytes (--rate-limit-bytes), share (the key holds its part of the queue) or quote (--max-quote, max_seconds)',
    labelNames: ['reason'],
    registers,
  });

  return {
    registry,
    text: () => registry.metrics(),
    observeRequest({ route, method, status, seconds }) {
      requests.inc({ route, method, status });
      requestSeconds.observe({ route, method }, seconds);
    },
    countConnectionError: (reason) => connectionErrors.inc({ reason }),
    countRefusal: (reason) => refusals.inc({ reason }),
    countSlowReader: () => slowReaders.inc(),
  };
}

const PARTS = {
  queue: 'the queue',
  tokenize: 'the tokenizer',
  inference: 'passes, and waits for their experts',
};

export function createJobTimes(registry: Registry): JobTimes {
  const jobSeconds = Object.fromEntries(
    (['queue', 'tokenize', 'inference'] as const).map((part) => [
      part,
      new Histogram({
        name: `sida_job_${part}_seconds`,
        help: `Seconds that a job spent in ${PARTS[part]}`,
        labelNames: ['kind'],
        buckets: SECONDS,
        registers: [registry],
      }),
    ]),
  ) as Record<'queue' | 'tokenize' | 'inference', Histogram>;

  return {
    observeOutcome(kind, { result, queueMs }) {
      const { timing } = result;
      const waitedMs = queueMs + timing.queueMs;
      jobSeconds.queue.observe({ kind }, waitedMs / 1000);
      jobSeconds.tokenize.observe({ kind }, timing.tokenizeMs / 1000);
      jobSeconds.inference.observe({ kind }, timing.inferenceMs / 1000);
    },
  };
}
