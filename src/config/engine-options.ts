/** Options of an engine: model, device, budgets, predictor and batches. A default may depend on earlier options. */

import { availableParallelism, homedir } from 'node:os';
import { join } from 'node:path';
import {
  COPIED_DTYPES,
  DEFAULT_GROUP,
  DENSE_DTYPES,
  EXPERT_DTYPES,
  GROUPS,
} from '../checkpoint/weight-format.js';
import { ACTIVATIONS, DEVICES, KV_TYPES } from '../native/engine-types.js';
import { option } from './option.js';
import {
  bandwidth,
  duration,
  Expected,
  oneOf,
  orAuto,
  type Parser,
  size,
  text,
  wholeNumber,
} from './parsers.js';

const HASH_FUNCTIONS = ['auto', 'lstm', 'attention', 'token'] as const;

const EVICTION_POLICY_NAMES = ['farthest-next-use', 'lru', 'fifo', 'lfu', 'expert-buffering'] as const;
export type EvictionPolicyName = (typeof EVICTION_POLICY_NAMES)[number];

const PREFIX_CACHE_MODES = ['per-key', 'shared', 'off'] as const;
export type PrefixCacheMode = (typeof PREFIX_CACHE_MODES)[number];

/** Whether the model's routers (`exact`) or hash tables (`predicted`) send tokens to experts. */
export const ROUTING_MODES = ['exact', 'predicted'] as const;
export type RoutingMode = (typeof ROUTING_MODES)[number];

/** Most experts per token that the native engine accepts. A model's tables may have a lower limit. */
export const MOST_ROUTING_K = 64;

const group: Parser<number> = (value) => {
  const found = GROUPS.find((size) => String(size) === value);
  if (found === undefined) throw new Expected(`one of ${GROUPS.join(', ')}`, String(DEFAULT_GROUP));
  return found;
};

export const ENGINE_OPTIONS = {
  model: option({
    flag: 'model',
    value: '<path>',
    group: 'model',
    default: undefined,
    help: 'checkpoint, GGUF file or packed model to serve',
    more: 'A checkpoint is a Hugging Face directory. ORG/NAME is a model of Hugging Face, which is downloaded first. For several models, repeat the flag, or separate them by commas in the variable',
    parse: text('a model directory or a GGUF file', 'models/switch-words'),
  }),
  memoryBudget: option({
    flag: 'memory-budget',
    value: '<size>',
    group: 'memory',
    default: 'auto',
    unit: "auto, bytes, or a share of the experts' bytes plus what the rest needs",
    help: 'limit of device memory: auto, 2GiB, 50%',
    more:
      'A hard limit, which counts everything: weights, slots, KV cache and workspace. auto is what the machine, its cgroup or the GPU ' +
      'has free, less a tenth and at least 512 MiB, and never more than all experts need. Several models share a size, and auto',
    parse: orAuto(size({ share: true, zero: false })),
  }),
  hostBudget: option({
    flag: 'host-budget',
    value: '<size>',
    group: 'memory',
    default: '0',
    unit: "bytes, or a share of the experts' bytes; 0 is off",
    help: 'host memory for evicted experts',
    more: 'The disk is then read less',
    parse: size({ share: true, zero: true }),
  }),
  device: option({
    flag: 'device',
    value: '<name>',
    group: 'model',
    default: 'cpu',
    help: `where the model runs: ${DEVICES.join(', ')}`,
    more: 'cuda uses one NVIDIA GPU, which CUDA_VISIBLE_DEVICES chooses. --memory-budget then limits GPU memory, and --host-budget keeps experts in page-locked host memory',
    parse: oneOf(DEVICES),
  }),
  policy: option({
    flag: 'policy',
    value: '<name>',
    group: 'speed',
    expert: true,
    default: 'farthest-next-use',
    help: 'which expert is evicted when a slot is needed',
    more: `One of ${EVICTION_POLICY_NAMES.join(', ')}`,
    parse: oneOf(EVICTION_POLICY_NAMES),
  }),
  predictor: option({
    flag: 'predictor',
    value: '<what>',
    group: 'speed',
    default: 'auto',
    help: 'names the experts of coming batches',
    more: "A directory of `sida train`, auto for the model's own predictor, or none",
    parse: text('`auto`, `none` or a predictor directory', 'models/switch-words/predictor'),
  }),
  hashFunction: option({
    flag: 'hash-function',
    value: '<name>',
    group: 'speed',
    expert: true,
    default: 'auto',
    help: "which of the predictor's functions fills the hash tables",
    more: `One of ${HASH_FUNCTIONS.join(', ')}. auto is the predictor's own default`,
    parse: oneOf(HASH_FUNCTIONS),
  }),
  routing: option({
    flag: 'routing',
    value: '<mode>',
    group: 'model',
    expert: true,
    default: 'exact',
    help: "exact: the model's routers choose experts; predicted: hash tables do",
    more: 'With exact, hash tables only move experts. With predicted, as in the SiDA-MoE paper, the routers stay off the device',
    parse: oneOf(ROUTING_MODES),
  }),
  routingK: option({
    flag: 'routing-k',
    value: '<n>',
    group: 'model',
    expert: true,
    default: null,
    defaultText: "as many as the model's routers choose",
    unit: 'experts',
    help: 'most experts per token that a request with predicted routing may ask for',
    more: 'A request that names no number gets this many',
    parse: wholeNumber(1, MOST_ROUTING_K, '1'),
  }),
  sampling: option({
    flag: 'sampling',
    value: '<how>',
    group: 'model',
    default: 'model',
    help: 'sampling by default: model, greedy',
    more: "It applies to requests that do not say. model is what the model advises; greedy takes the likeliest token. The advice stands in generation_config.json, or in a GGUF file's general.sampling. A model without it is greedy",
    parse: oneOf(['model', 'greedy'] as const),
  }),
  lookahead: option({
    flag: 'lookahead',
    value: '<n>',
    group: 'speed',
    expert: true,
    default: '4',
    unit: 'batches',
    help: 'batches prepared ahead of the running one',
    more: 'A larger number plans further ahead and holds more requests in the engine',
    parse: wholeNumber(1, 64, '4'),
  }),
  lookAheadLayers: option({
    flag: 'look-ahead-layers',
    value: '<n>',
    group: 'speed',
    expert: true,
    default: (soFar) => (soFar.predictor === 'none' ? '0' : '2'),
    defaultText: '2, or 0 with --predictor none',
    unit: 'MoE layers; 0 is off',
    help: 'layers whose routers are applied ahead of time',
    more: 'They run while the layers before them run, in passes of up to 64 tokens. Experts that they name are prefetched while the link idles. Answers have the same bits',
    parse: wholeNumber(0, 8, '2'),
  }),
  linkBandwidth: option({
    flag: 'link-bandwidth',
    value: '<rate>',
    group: 'speed',
    expert: true,
    default: '0',
    unit: 'bytes per second; 0 is off',
    help: 'simulated link: slow copies of experts down to this rate, for experiments',
    parse: bandwidth,
  }),
  linkLatencyMs: option({
    flag: 'link-latency',
    value: '<time>',
    group: 'speed',
    expert: true,
    default: '0',
    unit: 'milliseconds when no unit is given',
    help: 'simulated link: time added to each copy of an expert',
    parse: duration(0, 10_000, 'ms'),
  }),
  readDepth: option({
    flag: 'read-depth',
    value: '<n>',
    group: 'speed',
    expert: true,
    default: '0',
    unit: 'reads; 0 measures the best number at the start, in about 40 ms',
    help: 'reads in flight on each file of experts',
    more: 'The smallest number that keeps the disk busy is best; for large experts, 2',
    parse: wholeNumber(0, 64, '2'),
  }),
  maxBatchTokens: option({
    flag: 'max-batch-tokens',
    value: '<n>',
    group: 'memory',
    default: '2048',
    unit: 'tokens',
    help: 'most tokens of one pass',
    more: 'This sizes the workspace. An encoder takes no longer input. A decoder-only model runs a longer prompt in several passes',
    parse: wholeNumber(16, 1 << 20, '2048'),
  }),
  context: option({
    flag: 'context',
    value: '<n>',
    group: 'memory',
    default: 'auto',
    unit: 'tokens',
    help: 'longest prompt and answer together',
    more: "auto is the model's own context, or fewer where its KV cache would take more than a tenth of the budget",
    parse: orAuto(wholeNumber(16, 1 << 24, '16384')),
  }),
  kvTokens: option({
    flag: 'kv-tokens',
    value: '<n>',
    group: 'memory',
    expert: true,
    default: 'auto',
    unit: 'tokens',
    help: 'tokens of all running requests in the KV cache',
    more: 'auto is --context, and at least 1.5 × --max-batch-tokens',
    parse: orAuto(wholeNumber(16, 1 << 24, '3072')),
  }),
  kv: option({
    flag: 'kv',
    value: '<type>',
    group: 'memory',
    default: 'bf16',
    help: 'type of the KV cache: bf16, f32, q8_0',
    more: 'bf16 takes half of the memory of f32 and rounds keys and values to 8 significant bits. q8_0 takes a good quarter, in blocks of 32 columns with one scale; it needs the cpu device and heads of a multiple of 32 columns. Answers have the same bits at every budget with each',
    parse: oneOf(KV_TYPES),
  }),
  kvWindows: option({
    flag: 'kv-windows',
    value: '<n>',
    group: 'memory',
    expert: true,
    default: '1',
    unit: 'sequences',
    help: 'sequences longer than their window for which layers with a window keep pages',
    more: 'The tokens of the largest pass come on top. Requests beyond that wait. More matter only where many long sequences run at a time, and never to models without windows',
    parse: wholeNumber(1, 1 << 16, '1'),
  }),
  prefixCache: option({
    flag: 'prefix-cache',
    value: '<who>',
    group: 'memory',
    expert: true,
    default: 'per-key',
    help: 'who may reuse the KV pages of finished requests: per-key, shared, off',
    more:
      'Pages stay while no running request needs the room, so that a prompt which begins with the same tokens is not ' +
      'computed again. per-key: only for the API key that sent them; shared: for all keys, which lets a client ' +
      'measure what others have sent; off: none stay. Answers have the same bits',
    parse: oneOf(PREFIX_CACHE_MODES),
  }),
  batchWaitMs: option({
    flag: 'batch-wait-ms',
    value: '<time>',
    group: 'speed',
    expert: true,
    default: '2',
    unit: 'milliseconds when no unit is given',
    help: 'how long a request waits for others to share its batch while the engine is busy',
    more: 'An idle engine starts it at once',
    parse: duration(0, 10_000, 'ms'),
  }),
  threads: option({
    flag: 'threads',
    value: '<n>',
    group: 'speed',
    default: () => String(availableParallelism()),
    defaultText: 'the cores of this machine',
    unit: 'threads',
    help: 'threads that compute',
    more: 'More threads than cores are slower',
    parse: wholeNumber(1, 1024),
  }),
  experts: option({
    flag: 'experts',
    value: '<type>',
    group: 'model',
    default: 'auto',
    help: 'element type of packed experts',
    more: `One of ${EXPERT_DTYPES.join(', ')}; auto keeps the checkpoint's types. Only files that have them give ${COPIED_DTYPES.join(' and ')}`,
    parse: oneOf(['auto', ...EXPERT_DTYPES]),
  }),
  group: option({
    flag: 'group',
    value: '<n>',
    group: 'model',
    expert: true,
    default: null,
    defaultText: `${DEFAULT_GROUP} with --experts int4`,
    unit: 'inputs',
    help: `inputs that share a scale in int4 experts: ${GROUPS.join(', ')}`,
    more: 'Smaller groups are more exact and take more bytes',
    parse: group,
  }),
  dense: option({
    flag: 'dense',
    value: '<type>',
    group: 'model',
    expert: true,
    default: 'auto',
    help: 'element type of the other packed weights, embeddings and head included',
    more: `One of ${DENSE_DTYPES.join(', ')}; auto keeps the checkpoint's types. Routers, norms and position biases are always f32`,
    parse: oneOf(['auto', ...DENSE_DTYPES]),
  }),
  activations: option({
    flag: 'activations',
    value: '<type>',
    group: 'speed',
    default: 'auto',
    help: 'rounded to: auto, f32, int8, bf16',
    more:
      'Element type of activations in products. f32 is exact against transformers. int8 rounds to 8 bits where weights are quantized, which is faster. bf16 ' +
      'rounds where weights are bf16, and is faster on processors with AMX alone. auto is int8 where weights are ' +
      'quantized and the device is cpu, else f32. With each type, answers have the same bits at every budget',
    parse: oneOf(['auto', ...ACTIVATIONS]),
  }),
  packDir: option({
    flag: 'pack-dir',
    value: '<dir>',
    group: 'model',
    default: (_, env) => join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'sida', 'packs'),
    defaultText: '~/.cache/sida/packs',
    help: 'where packs are made on first use',
    more: 'A fast local disk is best. The default follows XDG_CACHE_HOME',
    parse: text('a directory', '/var/cache/sida/packs'),
  }),
  checkTensors: option({
    flag: 'check-tensors',
    value: '[which]',
    bare: 'all',
    group: 'model',
    expert: true,
    default: 'none',
    help: 'all: read every weight at the start, and refuse a NaN or infinite one',
    more: 'none: requests to a model with such a weight fail with nonfinite_output',
    parse: oneOf(['all', 'none'] as const),
  }),
};
