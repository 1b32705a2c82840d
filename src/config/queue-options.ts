/** Options of servers and workers that share a Redis. */
import { option } from './option.js';
import { duration, oneOf, redisUrl, wholeNumber } from './parsers.js';

export const QUEUE_OPTIONS = {
  redis: option({
    flag: 'redis',
    value: '<url>',
    env: 'SIDA_REDIS',
    default: null,
    help: 'queue that servers and workers on several machines share; none: jobs wait in memory. Set a URL with a password as SIDA_REDIS: flags show in process lists',
    parse: redisUrl,
  }),
  worker: option({
    flag: 'worker',
    value: '<where>',
    env: 'SIDA_WORKER',
    default: 'embedded',
    help: 'with --redis: embedded runs jobs in this process too; none leaves them to `sida worker`, and --model is then the name of the model that workers serve',
    parse: oneOf(['embedded', 'none'] as const),
  }),
  concurrency: option({
    flag: 'concurrency',
    value: '<n>',
    env: 'SIDA_CONCURRENCY',
    default: '64',
    unit: 'jobs',
    help: 'jobs that a worker of --redis takes at a time; its engine makes batches of them',
    parse: wholeNumber(1, 4096, '64'),
  }),
  attempts: option({
    flag: 'attempts',
    value: '<n>',
    env: 'SIDA_ATTEMPTS',
    default: '3',
    unit: 'runs',
    help: 'runs of a job of --redis before it fails, when engines or workers die while they run it',
    parse: wholeNumber(1, 100, '3'),
  }),
  lockDuration: option({
    flag: 'lock-duration',
    value: '<time>',
    env: 'SIDA_LOCK_DURATION',
    default: '30s',
    unit: 'milliseconds when no unit is given',
    help: 'a worker of --redis that was silent for this long counts as dead, and other workers run its jobs',
    parse: duration(500, 3_600_000),
  }),
  stalledInterval: option({
    flag: 'stalled-interval',
    value: '<time>',
    env: 'SIDA_STALLED_INTERVAL',
    default: '5s',
    unit: 'milliseconds when no unit is given',
    help: 'how often workers of --redis look for jobs of dead workers',
    parse: duration(100, 3_600_000),
  }),
};
