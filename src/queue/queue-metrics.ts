/** Exports the queue's figures as metrics and logs the end of each kept job. */
import { Gauge, type Registry } from 'prom-client';
import { ERROR_CODES } from '../errors.js';
import { copyCounters, copyGauges, copyLabelled } from '../observability/copied-metrics.js';
import type { Logger } from '../observability/logger.js';
import type { Metrics } from '../observability/metrics.js';
import type { JobQueue, KeptEnd } from './job-queue.js';

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

export function copyQueue(registry: Registry, queue: Pick<JobQueue, 'stats' | 'outage'>): void {
  const { kept } = queue.stats;
  new Gauge({
    name: 'sida_kept_jobs',
    help: 'Jobs of /v1/jobs that this process keeps, by status',
    labelNames: ['status'],
    registers: [registry],
    collect() {
      for (const status of ['queued', 'running', 'ended'] as const) this.set({ status }, kept[status]);
    },
  });
  copyGauges(registry, [
    ['sida_kept_answers_bytes', 'Bytes of the answers that are kept (--job-results)', () => kept.answerBytes],
    [
      'sida_kept_watching',
      'Listeners to jobs: readers of events, and what settles the tokens of a job (--rate-limit)',
      () => kept.watching,
    ],
    [
      'sida_queue_up',
      '1 while the queue takes jobs and a worker runs them; 0 without Redis or a worker (--redis)',
      () => (queue.outage === undefined ? 1 : 0),
    ],
    [
      'sida_queue_redis_seconds',
      'Seconds Redis took for its last answer, the way included; asked twice a second',
      () => queue.stats.redisSeconds,
    ],
    ['sida_queue_waiting_jobs', 'Jobs waiting for the engine', () => queue.stats.waiting],
    [
      'sida_queue_oldest_wait_seconds',
      'Seconds that the oldest job of the queue has waited; with --redis, the job that is next',
      () => {
        const { waitingSinceMs } = queue.stats;
        return waitingSinceMs === undefined ? 0 : Math.max(0, performance.now() - waitingSinceMs) / 1000;
      },
    ],
    ['sida_queue_active_jobs', 'Jobs in the engine', () => queue.stats.active],
    [
      'sida_queue_failed_jobs',
      'Jobs of /v1/jobs that ended without an answer and are kept: failed, expired or cancelled',
      () => kept.failed,
    ],
  ]);
  copyCounters(registry, [
    [
      'sida_kept_repeated_total',
      'Requests that came again under their idempotency key and got the job of the first',
      () => kept.repeated,
    ],
    [
      'sida_kept_conflicts_total',
      'Requests refused because their idempotency key had come with another request',
      () => kept.conflicts,
    ],
    [
      'sida_queue_outages_total',
      'Times Redis was lost: the connection broke, or no answer came',
      () => queue.stats.outages,
    ],
    ['sida_queue_accepted_total', 'Jobs accepted', () => queue.stats.accepted],
    ['sida_queue_retries_total', 'Runs repeated after a crash of the engine', () => queue.stats.retried],
    [
      'sida_queue_fenced_total',
      'Late results dropped because another run had replaced theirs; of the whole queue in Redis',
      () => queue.stats.fenced,
    ],
  ]);
  copyLabelled(
    registry,
    [
      'sida_kept_dropped_total',
      'Ended jobs no longer kept, by what bounds them: retention, bytes or number',
      'reason',
    ],
    () => kept.dropped,
  );
  copyLabelled(
    registry,
    ['sida_queue_jobs_total', 'Jobs by outcome; a quarantined job counts as failed too', 'outcome'],
    () => {
      const { completed, failed, cancelled, refused, expired, quarantined } = queue.stats;
      return { completed, failed, cancelled, refused, expired, quarantined };
    },
  );
}
