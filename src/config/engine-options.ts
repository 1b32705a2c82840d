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
import { ACTIVATIONS, DEVICES } from '../native/engine-types.js';
import { EVICTION_POLICY_NAMES, PREFIX_CACHE_MODES, ROUTING_MODES } from '../protocol/engine-messages.js';
import type { HashFunctionName } from '../protocol/predictor-messages.js';

import { option } from './option.js';
import { bandwidth, duration, Expected, oneOf, type Parser, size, text, wholeNumber } from './parsers.js';

const HASH_FUNCTIONS = ['auto', 'lstm', 'attention', 'token'] as const satisfies readonly (
  | HashFunctionName
  | 'auto'
)[];

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
    env: 'SIDA_MODEL',
    default: undefined,
    help: 'Hugging Face checkpoint, GGUF file or packed model to serve; for several models, repeat the flag or separate them by commas in the variable',
    parse: text('a model directory or a GGUF file', 'models/switch-words'),
  }),
  memoryBudget: option({
    flag: 'memory-budget',
    value: '<size>',
    env: 'SIDA_MEMORY_BUDGET',
    default: '50%',
    unit: "bytes, or a share of the experts' bytes plus what the rest needs",
    help: 'hard limit of device memory. It counts everything: weights, slots, KV cache and workspace. A size is shared by several models',
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
    help: `where the model runs: ${DEVICES.join(', ')}. cuda uses one NVIDIA GPU, which CUDA_VISIBLE_DEVICES chooses. --memory-budget then limits GPU memory, and --host-budget keeps experts in page-locked host memory`,
    parse: oneOf(DEVICES),
  }),
  policy: option({
    flag: 'policy',
    value: '<name>',
    env: 'SIDA_POLICY',
    default: 'farthest-next-use',
    help: `which expert is evicted when a slot is needed: ${EVICTION_POLICY_NAMES.join(', ')}`,
    parse: oneOf(EVICTION_POLICY_NAMES),
  }),
  predictor: option({
    flag: 'predictor',
    value: '<what>',
    env: 'SIDA_PREDICTOR',
    default: 'auto',
    help: "predictor that names the experts of a batch before it runs: a directory of `sida train`, `auto` for the model's own, or `none`",
    parse: text('`auto`, `none` or a predictor directory', 'models/switch-words/predictor'),
  }),
  hashFunction: option({
    flag: 'hash-function',
    value: '<name>',
    env: 'SIDA_HASH_FUNCTION',
    default: 'auto',
    help: `which of the predictor's functions fills the hash tables: ${HASH_FUNCTIONS.join(', ')}; auto is the predictor's own default`,
    parse: oneOf(HASH_FUNCTIONS),
  }),
  governor: option({
    flag: 'governor',
    value: '<switch>',
    env: 'SIDA_GOVERNOR',
    default: 'on',
    help:
      'on: measures while serving whether hash tables, and looking ahead, save more time than they cost, and lets them ' +
      'rest where they do not; off: both go on wherever experts may have to be loaded. Answers have the same bits',
    parse: oneOf(['on', 'off'] as const),
  }),
  routing: option({
    flag: 'routing',
    value: '<mode>',
    env: 'SIDA_ROUTING',
    default: 'exact',
    help: "exact: the model's routers decide, and hash tables only move experts; predicted: hash tables decide, as in the SiDA-MoE paper, and the routers stay off the device",
    parse: oneOf(ROUTING_MODES),
  }),
  routingK: option({
    flag: 'routing-k',
    value: '<n>',
    env: 'SIDA_ROUTING_K',
    default: null,
    defaultText: "as many as the model's routers choose",
    unit: 'experts',
    help: 'most experts per token that a request with predicted routing may ask for; a request that names no number gets this many',
    parse: wholeNumber(1, MOST_ROUTING_K, '1'),
  }),
  lookahead: option({
    flag: 'lookahead',
    value: '<n>',
    env: 'SIDA_LOOKAHEAD',
    default: '4',
    unit: 'batches',
    help: 'batches prepared ahead of the running one. A larger number plans further ahead and holds more requests in the engine',
    parse: wholeNumber(1, 64, '4'),
  }),
  lookAheadLayers: option({
    flag: 'look-ahead-layers',
    value: '<n>',
    env: 'SIDA_LOOK_AHEAD_LAYERS',
    default: (soFar) => (soFar.predictor === 'none' ? '0' : '2'),
    defaultText: '2, or 0 with --predictor none',
    unit: 'MoE layers; 0 is off',
    help:
      'layers whose routers are applied ahead of time, while the layers before them run, in passes of up to 64 ' +
      'tokens. Experts that they name are prefetched while the link idles. Answers have the same bits',
    parse: wholeNumber(0, 8, '2'),
  }),
  linkBandwidth: option({
    flag: 'link-bandwidth',
    value: '<rate>',
    env: 'SIDA_LINK_BANDWIDTH',
    default: '0',
    unit: 'bytes per second; 0 is off',
    help: 'simulated link: slow copies of experts down to this rate, for experiments',
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
    unit: 'reads; 0 measures the best number at the start, in about 40 ms',
    help: 'reads in flight on each file of experts. The smallest number that keeps the disk busy is best, of large experts 2',
    parse: wholeNumber(0, 64, '2'),
  }),
  maxBatchTokens: option({
    flag: 'max-batch-tokens',
    value: '<n>',
    env: 'SIDA_MAX_BATCH_TOKENS',
    default: '2048',
    unit: 'tokens',
    help: 'most tokens of one pass; this sizes the workspace. An encoder takes no longer input. A decoder-only model runs a longer prompt in several passes',
    parse: wholeNumber(16, 1 << 20, '2048'),
  }),
  kvTokens: option({
    flag: 'kv-tokens',
    value: '<n>',
    env: 'SIDA_KV_TOKENS',
    default: (soFar) => String(Math.ceil(Number(soFar.maxBatchTokens) * 1.5)),
    defaultText: '1.5 × --max-batch-tokens',
    unit: 'tokens',
    help: 'tokens that the KV cache holds for all running requests together',
    parse: wholeNumber(16, 1 << 24, '3072'),
  }),
  kv: option({
    flag: 'kv',
    value: '<type>',
    env: 'SIDA_KV',
    default: 'f32',
    help:
      'element type of the KV cache: f32, or bf16, which takes half of the memory and rounds keys and ' +
      'values to 8 significant bits. Answers have the same bits at every budget with both',
    parse: oneOf(['f32', 'bf16'] as const),
  }),
  kvWindows: option({
    flag: 'kv-windows',
    value: '<n>',
    env: 'SIDA_KV_WINDOWS',
    default: '1',
    unit: 'sequences',
    help:
      'sequences longer than their window for which layers with a window keep pages, beside the tokens of ' +
      'the largest pass; requests beyond that wait. More matter only where many long sequences run at a ' +
      'time, and never to models without windows',
    parse: wholeNumber(1, 1 << 16, '1'),
  }),
  prefixCache: option({
    flag: 'prefix-cache',
    value: '<who>',
    env: 'SIDA_PREFIX_CACHE',
    default: 'per-key',
    help:
      'KV pages of finished requests that stay while no running request needs the room, so that a prompt which ' +
      'begins with the same tokens is not computed again. per-key: only for the API key that sent them; shared: for ' +
      'all keys, which lets a client measure what others have sent; off: none stay. Answers have the same bits',
    parse: oneOf(PREFIX_CACHE_MODES),
  }),
  batchWait: option({
    flag: 'batch-wait-ms',
    value: '<time>',
    env: 'SIDA_BATCH_WAIT_MS',
    default: '2',
    unit: 'milliseconds when no unit is given',
    help: 'how long a request waits for others to share its batch while the engine is busy; an idle engine starts it at once',
    parse: duration(0, 10_000),
  }),
  threads: option({
    flag: 'threads',
    value: '<n>',
    env: 'SIDA_THREADS',
    default: () => String(availableParallelism()),
    defaultText: 'the cores of this machine',
    unit: 'threads',
    help: 'threads that compute; more threads than cores are slower',
    parse: wholeNumber(1, 1024),
  }),
  experts: option({
    flag: 'experts',
    value: '<type>',
    env: 'SIDA_EXPERTS',
    default: 'auto',
    help: `element type of packed experts: ${EXPERT_DTYPES.join(', ')}; auto keeps the checkpoint's types. Only files that have them give ${COPIED_DTYPES.join(' and ')}`,
    parse: oneOf(['auto', ...EXPERT_DTYPES]),
  }),
  group: option({
    flag: 'group',
    value: '<n>',
    env: 'SIDA_GROUP',
    default: null,
    defaultText: `${DEFAULT_GROUP} with --experts int4`,
    unit: 'inputs',
    help: `inputs that share a scale in int4 experts: ${GROUPS.join(', ')}. Smaller groups are more exact and take more bytes`,
    parse: group,
  }),
  dense: option({
    flag: 'dense',
    value: '<type>',
    env: 'SIDA_DENSE',
    default: 'auto',
    help: `element type of the other packed weights, embeddings and head included: ${DENSE_DTYPES.join(', ')}; auto keeps the checkpoint's types. Routers, norms and position biases are always f32`,
    parse: oneOf(['auto', ...DENSE_DTYPES]),
  }),
  activations: option({
    flag: 'activations',
    value: '<type>',
    env: 'SIDA_ACTIVATIONS',
    default: 'f32',
    help:
      'element type of activations in products: f32; int8, which rounds them to 8 bits where weights are quantized; ' +
      'or bf16, which rounds them where weights are bf16 and is faster on processors with AMX alone. Rounding is less ' +
      'exact. With each type, answers have the same bits at every budget',
    parse: oneOf(ACTIVATIONS),
  }),
  packDir: option({
    flag: 'pack-dir',
    value: '<dir>',
    env: 'SIDA_PACK_DIR',
    default: (_, env) => join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'sida', 'packs'),
    // biome-ignore lint/suspicious/noTemplateCurlyInString: shell notation, as the help shows it
    defaultText: '${XDG_CACHE_HOME:-~/.cache}/sida/packs',
    help: 'directory for packs that are made on first use; a fast local disk is best',
    parse: text('a directory', '/var/cache/sida/packs'),
  }),
  checkTensors: option({
    flag: 'check-tensors',
    value: '[which]',
    bare: 'all',
    env: 'SIDA_CHECK_TENSORS',
    default: 'none',
    help: 'all: read every weight at the start, and refuse a model with a NaN or infinite weight; none: requests to such a model fail with nonfinite_output',
    parse: oneOf(['all', 'none'] as const),
  }),
};
