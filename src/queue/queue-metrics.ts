/** Exports the queue's figures as metrics and logs the end of each kept job. */
import { Counter, Gauge, type Registry } from 'prom-client';
import { ERROR_CODES } from '../errors.js';
import { copyCounter, copyGauge } from '../observability/copied-metrics.js';
import type { Logger } from '../observability/logger.js';
import type { Metrics } from '../observability/metrics.js';
import { DROP_REASONS, type JobQueue, type KeptEnd, type QueueStats } from './job-queue.js';

/** Records the end of a kept job in the log and the metrics. */
export function recordKeptJob(
  record: KeptEnd,
  metrics: Pick<Metrics, 'observeOutcome'> | undefined,
  logger: Logger,
): void {
  const { id: jobId, kind, status, createdMs, startedMs, finishedMs, attempts, result, error } = record;
  if (result !== null) {
    metrics?.observeOutcome(kind, { result, queueMs: Math.max(0, startedMs! - createdMs) });
  }
  const about = { jobId, kind, status, attempts, ms: Math.max(0, finishedMs! - createdMs) };
  if (error === null) logger.info(about, 'job ended');
  else if (ERROR_CODES[error.code].status >= 500) logger.error({ ...about, err: error }, 'job failed');
  else logger.info({ ...about, code: error.code }, 'job ended');
}

function copyKeptJobs(registry: Registry, { stats: { kept } }: Pick<JobQueue, 'stats'>): void {
  const statuses = ['queued', 'running', 'ended'] as const;
  new Gauge({
    name: 'sida_kept_jobs',
    help: 'Jobs of /v1/jobs that this process keeps, by status',
    labelNames: ['status'],
    registers: [registry],
    collect() {
      for (const status of statuses) this.set({ status }, kept[status]);
    },
  });
  const bytes = 'Bytes of the answers that are kept (--job-results)';
  copyGauge(registry, 'sida_kept_answers_bytes', bytes, () => kept.answerBytes);
  const watching =
    'Listeners to jobs: readers of events, and what settles the tokens of a job (--rate-limit)';
  copyGauge(registry, 'sida_kept_watching', watching, () => kept.watching);
  const repeated = 'Requests that came again under their idempotency key and got the job of the first';
  copyCounter(registry, 'sida_kept_repeated_total', repeated, () => kept.repeated);
  const conflicts = 'Requests refused because their idempotency key had come with another request';
  copyCounter(registry, 'sida_kept_conflicts_total', conflicts, () => kept.conflicts);
  new Counter({
    name: 'sida_kept_dropped_total',
    help: 'Ended jobs no longer kept, by what bounds them: retention, bytes or number',
    labelNames: ['reason'],
    registers: [registry],
    collect() {
      this.reset();
      for (const reason of DROP_REASONS) this.inc({ reason }, kept.dropped[reason]);
    },
  });
}

export function copyQueue(registry: Registry, queue: Pick<JobQueue, 'stats' | 'outage'>): void {
  copyKeptJobs(registry, queue);
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
  copyGauge(
    registry,
    'sida_queue_oldest_wait_seconds',
    'Seconds that the oldest job of the queue has waited; with --redis, the job that is next',
    () => {
      const { waitingSinceMs } = queue.stats;
      return waitingSinceMs === undefined ? 0 : Math.max(0, performance.now() - waitingSinceMs) / 1000;
    },
  );
  copyGauge(registry, 'sida_queue_active_jobs', 'Jobs in the engine', () => queue.stats.active);
  copyGauge(
    registry,
    'sida_queue_failed_jobs',
    'Jobs of /v1/jobs that ended without an answer and are kept: failed, expired or cancelled',
    () => queue.stats.kept.failed,
  );
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
