/**
 * Every option of `sida serve`, in one table: flag, environment name, default, unit and reason side by side. A key of
 * the configuration file is the flag without its dashes. Order matters: a default may use options above it.
 */

import { availableParallelism, homedir } from 'node:os';
import { join } from 'node:path';
import { DEFAULT_GROUP, DENSE_DTYPES, EXPERT_DTYPES, GROUPS } from '../checkpoint/weight-format.js';
import { BATCH_ORDERS } from '../engine/batch-order.js';
import type { EvictionPolicyName } from '../engine/messages.js';
import { PLACEMENTS } from '../placement/choose-worker.js';
import type { HashFunctionName } from '../predictor/hash-function.js';
import { TABLE_K } from '../predictor/hash-table.js';
import {
  address,
  bandwidth,
  bytes,
  duration,
  Expected,
  hostName,
  list,
  oneOf,
  type Parser,
  redisUrl,
  size,
  text,
  webOrigin,
  wholeNumber,
} from './parsers.js';

export interface Option<T> {
  flag: string;
  /** What stands for the value in the help. */
  value: string;
  /** What the flag alone means, where `value` is in brackets. */
  bare?: string;
  env: string;
  /** As a user would write it; undefined when the option must be given, null when it may stay unset. */
  default: string | null | undefined | ((soFar: Record<string, unknown>, env: NodeJS.ProcessEnv) => string);
  /** The default in words, where it is computed. */
  defaultText?: string;
  unit?: string;
  help: string;
  parse: Parser<T>;
}

function option<T>(definition: Option<T>): Option<T> {
  return definition;
}

const POLICIES = [
  'farthest-next-use',
  'lru',
  'fifo',
  'lfu',
  'lifo',
] as const satisfies readonly EvictionPolicyName[];
const HASH_FUNCTIONS = ['auto', 'lstm', 'token', 'graph', 'replay', 'shuffled'] as const satisfies readonly (
  | HashFunctionName
  | 'auto'
)[];

const group: Parser<number> = (value) => {
  const found = GROUPS.find((size) => String(size) === value);
  if (found === undefined) throw new Expected(`one of ${GROUPS.join(', ')}`, String(DEFAULT_GROUP));
  return found;
};

export const SERVE_OPTIONS = {
  model: option({
    flag: 'model',
    value: '<dir>',
    env: 'SIDA_MODEL',
    default: undefined,
    help: 'Hugging Face checkpoint or packed model to serve',
    parse: text('a model directory', 'models/switch-mini'),
  }),
  memoryBudget: option({
    flag: 'memory-budget',
    value: '<size>',
    env: 'SIDA_MEMORY_BUDGET',
    default: '50%',
    unit: "bytes, or a share of the experts' bytes plus what the rest needs",
    help: 'hard limit of device memory: weights, slots, KV cache and workspace, all counted',
    parse: size({ share: true, zero: false }),
  }),
  hostBudget: option({
    flag: 'host-budget',
    value: '<size>',
    env: 'SIDA_HOST_BUDGET',
    default: '0',
    unit: "bytes, or a share of the experts' bytes; 0 is off",
    help: 'host memory that keeps evicted experts, so that the disk is read less',
    parse: size({ share: true, zero: true }),
  }),
  device: option({
    flag: 'device',
    value: '<name>',
    env: 'SIDA_DEVICE',
    default: 'cpu',
    help: 'where the model runs; this version runs on cpu',
    parse: oneOf(['cpu'] as const, { cuda: 'the cuda backend is not built yet' }),
  }),
  policy: option({
    flag: 'policy',
    value: '<name>',
    env: 'SIDA_POLICY',
    default: 'farthest-next-use',
    help: `which expert leaves when a slot is needed: ${POLICIES.join(', ')}`,
    parse: oneOf(POLICIES),
  }),
  predictor: option({
    flag: 'predictor',
    value: '<what>',
    env: 'SIDA_PREDICTOR',
    default: 'auto',
    help: "names the experts of a batch before it runs: a directory of `sida train`, `auto` for the model's own, `none`",
    parse: text('`auto`, `none` or a predictor directory', 'models/switch-mini/predictor'),
  }),
  hashFunction: option({
    flag: 'hash-function',
    value: '<name>',
    env: 'SIDA_HASH_FUNCTION',
    default: 'auto',
    help: `which of the predictor's functions fills the hash tables: ${HASH_FUNCTIONS.join(', ')}; replay reads a trace directory, shuffled is a control that names wrong experts`,
    parse: oneOf(HASH_FUNCTIONS),
  }),
  refine: option({
    flag: 'refine',
    value: '<how>',
    env: 'SIDA_REFINE',
    default: 'graph',
    help: "graph: what a layer's routers chose sharpens the tables of the layers to come, by the predictor's hash graph; none",
    parse: oneOf(['graph', 'none'] as const),
  }),
  routing: option({
    flag: 'routing',
    value: '<mode>',
    env: 'SIDA_ROUTING',
    default: 'exact',
    help: "exact: the model's routers decide, tables only move experts; predicted: tables decide, as in the SiDA-MoE paper, and the routers stay off the device",
    parse: oneOf(['exact', 'predicted'] as const),
  }),
  routingK: option({
    flag: 'routing-k',
    value: '<n>',
    env: 'SIDA_ROUTING_K',
    default: '1',
    unit: 'experts',
    help: 'most experts that predicted routing sends a token to, and their number where a request names none',
    parse: wholeNumber(1, TABLE_K, '1'),
  }),
  lookahead: option({
    flag: 'lookahead',
    value: '<n>',
    env: 'SIDA_LOOKAHEAD',
    default: '4',
    unit: 'batches',
    help: 'batches prepared ahead of the running one; more see further, and hold more requests',
    parse: wholeNumber(1, 64, '4'),
  }),
  linkBandwidth: option({
    flag: 'link-bandwidth',
    value: '<rate>',
    env: 'SIDA_LINK_BANDWIDTH',
    default: '0',
    unit: 'bytes per second; 0 is off',
    help: 'simulated link: slows copies of experts down to this rate, for experiments',
    parse: bandwidth,
  }),
  linkLatency: option({
    flag: 'link-latency',
    value: '<time>',
    env: 'SIDA_LINK_LATENCY',
    default: '0',
    unit: 'milliseconds when no unit is given',
    help: 'simulated link: time added to each copy of an expert',
    parse: duration(0, 10_000),
  }),
  readDepth: option({
    flag: 'read-depth',
    value: '<n>',
    env: 'SIDA_READ_DEPTH',
    default: '0',
    unit: 'reads; 0 measures it at the start, in about 40 ms',
    help: 'reads in flight on each file of experts: the fewest that fill the disk are best, more only make each wait',
    parse: wholeNumber(0, 64, '2'),
  }),
  maxBatchTokens: option({
    flag: 'max-batch-tokens',
    value: '<n>',
    env: 'SIDA_MAX_BATCH_TOKENS',
    default: '2048',
    unit: 'tokens',
    help: 'tokens of one pass; sizes the workspace, and an input longer than this cannot run',
    parse: wholeNumber(16, 1 << 20, '2048'),
  }),
  kvTokens: option({
    flag: 'kv-tokens',
    value: '<n>',
    env: 'SIDA_KV_TOKENS',
    default: (soFar) => String(Math.ceil(Number(soFar.maxBatchTokens) * 1.5)),
    defaultText: '1.5 × --max-batch-tokens',
    unit: 'tokens',
    help: 'tokens the KV cache holds, all running requests together',
    parse: wholeNumber(16, 1 << 24, '3072'),
  }),
  batchWait: option({
    flag: 'batch-wait-ms',
    value: '<time>',
    env: 'SIDA_BATCH_WAIT_MS',
    default: '2',
    unit: 'milliseconds when no unit is given',
    help: 'how long a request waits for others to share its batch while the engine computes; without other work it starts at once',
    parse: duration(0, 10_000),
  }),
  batchOrder: option({
    flag: 'batch-order',
    value: '<how>',
    env: 'SIDA_BATCH_ORDER',
    default: 'arrival',
    help: 'arrival: the oldest inputs make the next batch; overlap: the oldest and those whose hash tables name the same experts as it, so that fewer experts move; needs a predictor',
    parse: oneOf(BATCH_ORDERS),
  }),
  maxPassedOver: option({
    flag: 'max-passed-over',
    value: '<n>',
    env: 'SIDA_MAX_PASSED_OVER',
    default: '8',
    unit: 'batches',
    help: '--batch-order overlap: an input that so many batches left waiting for a younger one goes before any that is chosen for its experts',
    parse: wholeNumber(1, 1_000_000, '8'),
  }),
  threads: option({
    flag: 'threads',
    value: '<n>',
    env: 'SIDA_THREADS',
    default: () => String(availableParallelism()),
    defaultText: 'the cores of this machine',
    unit: 'threads',
    help: 'threads that compute; more than the cores is slower',
    parse: wholeNumber(1, 1024),
  }),
  experts: option({
    flag: 'experts',
    value: '<type>',
    env: 'SIDA_EXPERTS',
    default: 'auto',
    help: `element type of packed experts: ${EXPERT_DTYPES.join(', ')}; auto keeps the checkpoint's own`,
    parse: oneOf(['auto', ...EXPERT_DTYPES]),
  }),
  group: option({
    flag: 'group',
    value: '<n>',
    env: 'SIDA_GROUP',
    default: null,
    defaultText: `${DEFAULT_GROUP} with --experts int4`,
    unit: 'inputs',
    help: `inputs that share a scale in int4 experts: ${GROUPS.join(', ')}; fewer are more exact and larger`,
    parse: group,
  }),
  dense: option({
    flag: 'dense',
    value: '<type>',
    env: 'SIDA_DENSE',
    default: 'auto',
    help: `element type of the other packed weights, embeddings and head included: ${DENSE_DTYPES.join(', ')}; auto keeps the checkpoint's own; routers, norms and position biases are always f32`,
    parse: oneOf(['auto', ...DENSE_DTYPES]),
  }),
  activations: option({
    flag: 'activations',
    value: '<type>',
    env: 'SIDA_ACTIVATIONS',
    default: 'f32',
    help: 'what meets int8 and int4 weights: f32; or int8, each row of activations rounded to 8 bits as it comes, which is faster and less exact. Answers are the same bits at every budget either way',
    parse: oneOf(['f32', 'int8'] as const),
  }),
  packDir: option({
    flag: 'pack-dir',
    value: '<dir>',
    env: 'SIDA_PACK_DIR',
    default: (_, env) => join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'sida', 'packs'),
    // biome-ignore lint/suspicious/noTemplateCurlyInString: shell notation, as the help shows it
    defaultText: '${XDG_CACHE_HOME:-~/.cache}/sida/packs',
    help: 'where a checkpoint is packed to on first use; a fast local disk is best',
    parse: text('a directory', '/var/cache/sida/packs'),
  }),
  checkTensors: option({
    flag: 'check-tensors',
    value: '[which]',
    bare: 'all',
    env: 'SIDA_CHECK_TENSORS',
    default: 'none',
    help: 'all: read every weight at the start and refuse a model with one that is NaN or infinite, naming it; none: such a model answers nonfinite_output',
    parse: oneOf(['all', 'none'] as const),
  }),
  host: option({
    flag: 'host',
    value: '<address>',
    env: 'SIDA_HOST',
    default: '127.0.0.1',
    help: 'address to listen on; one that others can reach needs --api-key or --api-keys',
    parse: address,
  }),
  port: option({
    flag: 'port',
    value: '<n>',
    env: 'SIDA_PORT',
    default: '8080',
    help: 'port to listen on; 0 takes a free one',
    parse: wholeNumber(0, 65_535, '8080'),
  }),
  metricsPort: option({
    flag: 'metrics-port',
    value: '<n>',
    env: 'SIDA_METRICS_PORT',
    default: null,
    help: 'of `sida worker`: port of its /metrics and /health, on --host; 0 takes a free one; none: it does not listen',
    parse: wholeNumber(0, 65_535, '9464'),
  }),
  maxInputBytes: option({
    flag: 'max-input-bytes',
    value: '<size>',
    env: 'SIDA_MAX_INPUT_BYTES',
    default: '64KiB',
    unit: 'bytes',
    help: 'longest text of one input; longer ones are refused before they cost anything',
    parse: bytes(1, 1 << 20),
  }),
  queueBound: option({
    flag: 'queue-bound',
    value: '<n>',
    env: 'SIDA_QUEUE_BOUND',
    default: '512',
    unit: 'requests',
    help: 'requests that may wait; further ones are refused at once with 429',
    parse: wholeNumber(1, 1_000_000, '512'),
  }),
  deadline: option({
    flag: 'deadline',
    value: '<time>',
    env: 'SIDA_DEADLINE',
    default: '60s',
    unit: 'milliseconds when no unit is given',
    help: 'longest time from arrival to answer; later is answered 504',
    parse: duration(1, 86_400_000),
  }),
  jobDeadline: option({
    flag: 'job-deadline',
    value: '<time>',
    env: 'SIDA_JOB_DEADLINE',
    default: '10min',
    unit: 'milliseconds when no unit is given',
    help: 'longest time from the acceptance of a job of /v1/jobs to its end; nobody waits for it, so it may be longer than --deadline',
    parse: duration(1, 86_400_000),
  }),
  jobRetention: option({
    flag: 'job-retention',
    value: '<time>',
    env: 'SIDA_JOB_RETENTION',
    default: '1h',
    unit: 'milliseconds when no unit is given',
    help: 'how long an ended job of /v1/jobs, its answer and its idempotency key are kept',
    parse: duration(1_000, 604_800_000),
  }),
  jobResults: option({
    flag: 'job-results',
    value: '<size>',
    env: 'SIDA_JOB_RESULTS',
    default: '64MiB',
    unit: 'bytes',
    help: 'answers of ended jobs that are kept, all together; beyond that the oldest go first',
    parse: bytes(64 * 1024, 64 * 1024 ** 3),
  }),
  drain: option({
    flag: 'drain',
    value: '<time>',
    env: 'SIDA_DRAIN',
    default: '30s',
    unit: 'milliseconds when no unit is given',
    help: 'time that running requests get to finish after SIGTERM',
    parse: duration(0, 3_600_000),
  }),
  redis: option({
    flag: 'redis',
    value: '<url>',
    env: 'SIDA_REDIS',
    default: null,
    help: 'queue that servers and workers on several machines share; none: jobs wait in memory. A URL with a password is better set as SIDA_REDIS, as flags show in process lists',
    parse: redisUrl,
  }),
  worker: option({
    flag: 'worker',
    value: '<where>',
    env: 'SIDA_WORKER',
    default: 'embedded',
    help: 'with --redis: embedded runs jobs in this process too; none leaves them to `sida worker`, and --model then is the name of what those serve',
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
  placement: option({
    flag: 'placement',
    value: '<by>',
    env: 'SIDA_PLACEMENT',
    default: 'auto',
    help: 'with --redis: experts lets a worker pass a job on to another one that already holds its experts, within a bound of load; any runs jobs wherever they come up; auto is experts where loading all that has no slot takes 100 ms or more',
    parse: oneOf(PLACEMENTS),
  }),
  attempts: option({
    flag: 'attempts',
    value: '<n>',
    env: 'SIDA_ATTEMPTS',
    default: '3',
    unit: 'runs',
    help: 'runs of one job of --redis before it is given up, when engines or workers stop while they run it',
    parse: wholeNumber(1, 100, '3'),
  }),
  lockDuration: option({
    flag: 'lock-duration',
    value: '<time>',
    env: 'SIDA_LOCK_DURATION',
    default: '30s',
    unit: 'milliseconds when no unit is given',
    help: 'a worker of --redis that was silent for so long is taken for dead, and its jobs are run by others',
    parse: duration(500, 3_600_000),
  }),
  stalledInterval: option({
    flag: 'stalled-interval',
    value: '<time>',
    env: 'SIDA_STALLED_INTERVAL',
    default: '5s',
    unit: 'milliseconds when no unit is given',
    help: 'how often workers of --redis look for jobs of dead ones',
    parse: duration(100, 3_600_000),
  }),
  maxStalledCount: option({
    flag: 'max-stalled-count',
    value: '<n>',
    env: 'SIDA_MAX_STALLED_COUNT',
    default: '2',
    unit: 'times',
    help: 'times that BullMQ hands on a job whose worker died; --attempts has the last word',
    parse: wholeNumber(1, 100, '2'),
  }),
  apiKey: option({
    flag: 'api-key',
    value: '<key>',
    env: 'SIDA_API_KEY',
    default: null,
    help: 'key that requests must carry as "Authorization: Bearer <key>"; better set as SIDA_API_KEY, as flags show in process lists',
    parse: text('a key', 'a long random text'),
  }),
  apiKeys: option({
    flag: 'api-keys',
    value: '<file>',
    env: 'SIDA_API_KEYS',
    default: null,
    help: 'file of keys, each with a name and scopes (infer, admin, metrics); holds their hashes only; `sida key new` makes its lines. Read again when it changes, and on SIGHUP',
    parse: text('a file of keys', '/etc/sida/keys'),
  }),
  rateLimit: option({
    flag: 'rate-limit',
    value: '<n>',
    env: 'SIDA_RATE_LIMIT',
    default: null,
    unit: 'tokens a minute',
    help: 'tokens that each key may use in a minute, prompts and completions together; without keys, each client address. Further requests are refused with 429. Servers of one --redis count together',
    parse: wholeNumber(1, 1e12, '100000'),
  }),
  allowedHosts: option({
    flag: 'allowed-hosts',
    value: '<names>',
    env: 'SIDA_ALLOWED_HOSTS',
    default: null,
    help: 'further names that the Host header may carry, such as those of a proxy in front; separated by commas',
    parse: list(hostName),
  }),
  allowedOrigins: option({
    flag: 'allowed-origins',
    value: '<origins>',
    env: 'SIDA_ALLOWED_ORIGINS',
    default: null,
    help: "web origins other than the server's own whose pages may use it; separated by commas",
    parse: list(webOrigin),
  }),
  profile: option({
    flag: 'profile',
    value: '<file>',
    env: 'SIDA_PROFILE',
    default: null,
    help: 'records what every thread does and writes it here as a Chrome trace when the server ends; `sida profile <file>` sums it up',
    parse: text('a file', 'profile.json'),
  }),
  profileSeconds: option({
    flag: 'profile-seconds',
    value: '<s>',
    env: 'SIDA_PROFILE_SECONDS',
    default: null,
    unit: 'seconds',
    help: 'writes the profile after so long, and the server goes on; none: when it ends',
    parse: wholeNumber(1, 86_400, '10'),
  }),
  profileBytes: option({
    flag: 'profile-bytes',
    value: '<size>',
    env: 'SIDA_PROFILE_BYTES',
    default: '64MiB',
    unit: 'bytes',
    help: 'memory of a recording, about 50 bytes an event; what comes when it is full is dropped and counted',
    parse: bytes(64 * 1024, 128 * 1024 ** 2),
  }),
  logLevel: option({
    flag: 'log-level',
    value: '<level>',
    env: 'SIDA_LOG_LEVEL',
    default: 'info',
    help: 'least severe messages to log: trace, debug, info, warn, error, fatal or silent',
    parse: oneOf(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const),
  }),
};

export type OptionName = keyof typeof SERVE_OPTIONS;

/** Resolved options. Times are milliseconds, rates bytes per second; the two budgets stay as the user wrote them. */
export type ServeOptions = {
  [K in Exclude<OptionName, Unset>]: ReturnType<(typeof SERVE_OPTIONS)[K]['parse']>;
} & { [K in Unset]: ReturnType<(typeof SERVE_OPTIONS)[K]['parse']> | undefined };

/** Options that stay undefined when nobody sets them. */
type Unset =
  | 'allowedHosts'
  | 'allowedOrigins'
  | 'apiKey'
  | 'apiKeys'
  | 'group'
  | 'profile'
  | 'profileSeconds'
  | 'rateLimit'
  | 'redis';
