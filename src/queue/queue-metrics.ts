/** Kept jobs in log and metrics. */
import { Counter, Gauge, type Registry } from 'prom-client';
import { ERROR_CODES } from '../errors.js';
import { DROP_REASONS, type JobQueue, type KeptEnd } from './job-queue.js';
import { copyCounter, copyGauge } from '../observability/copied-metrics.js';
import type { Logger } from '../observability/logger.js';
import type { Metrics } from '../observability/metrics.js';

/** What a job leaves when it ends: its client may be long gone. */
export function recordKeptJob(
  record: KeptEnd,
  metrics: Pick<Metrics, 'observeOutcome'> | undefined,
  logger: Logger,
): void {
  const { id: jobId, kind, status, createdMs, startedMs, finishedMs, attempts, result, error } = record;
  if (result !== null) {
    metrics?.observeOutcome(kind, { result, queueMs: startedMs! - createdMs, attempts });
  }
  const about = { jobId, kind, status, attempts, ms: (finishedMs ?? Date.now()) - createdMs };
  if (error === null) logger.info(about, 'job ended');
  else if (ERROR_CODES[error.code].status >= 500) logger.error({ ...about, err: error }, 'job failed');
  else logger.info({ ...about, code: error.code }, 'job ended');
}

export function copyKeptJobs(registry: Registry, { stats: { kept } }: Pick<JobQueue, 'stats'>): void {
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
