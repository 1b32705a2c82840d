/** Turns a request into the inputs of the engine, or refuses it with the numbers. */

import { itemPages } from '../batching/kv-pages.js';
import { planScoring } from '../batching/scoring-plan.js';
import { SidaError } from '../errors.js';
import { isEncoderDecoder } from '../model/model-shape.js';
import type { ModelShape } from '../native/addon-types.js';
import type { JobRequest, RunRequest } from '../protocol/engine-messages.js';
import type { ItemWork } from '../protocol/item-work.js';
import { choiceSeed, type Sampling } from '../protocol/sampling.js';
import type { Tokenizer } from '../text/tokenizer.js';
import type { RoutingLimits } from './routing.js';

export interface ModelLimits {
  shape: ModelShape;
  maxBatchTokens: number;
  kvPages: number;
  kvPageTokens: number;
  /** A model without one takes token ids only. */
  tokenizer: Tokenizer | undefined;
  routing: RoutingLimits;
}

type CompleteRequest = Extract<JobRequest, { kind: 'complete' }>;

export interface PreparedInput {
  tokens: number[];
  work: ItemWork;
}

/** One input for each text or prompt, in order. */
export function prepareJob(request: RunRequest, limits: ModelLimits): PreparedInput[] {
  return request.kind === 'classify' ? prepareClassify(request, limits) : prepareComplete(request, limits);
}

/** The tokenizer, or the refusal of a model that has none. */
export function requireTokenizer(limits: ModelLimits, param: string): Tokenizer {
  if (limits.tokenizer !== undefined) return limits.tokenizer;
  const message = 'This model has no tokenizer.json: it takes token ids, not text';
  throw new SidaError({ code: 'invalid_request', message, param });
}

function prepareClassify(
  { inputs, labels }: Extract<JobRequest, { kind: 'classify' }>,
  limits: ModelLimits,
): PreparedInput[] {
  const tokenizer = requireTokenizer(limits, 'input');
  const { start, end } = limits.shape.tokens;
  const labelIds = labels.map((label) => tokenizer.encodePlain(label));
  const plan = planScoring(labelIds, start, end[0]);
  for (const { tokens } of plan.inputs)
    checkLength(tokens.length, 'labels', 'A label', limits.maxBatchTokens);
  return inputs.map((text, index) => {
    const input: PreparedInput = { tokens: tokenizer.encode(text), work: { kind: 'score', plan } };
    return checked(input, 'input', `Input ${index}`, limits);
  });
}

function prepareComplete(request: CompleteRequest, limits: ModelLimits): PreparedInput[] {
  const { prompts, maxTokens, logprobs, stop } = request;
  if (!Number.isSafeInteger(maxTokens) || maxTokens < 1) {
    const message = `Expected "max_tokens" to be a positive integer, found ${maxTokens}`;
    throw new SidaError({ code: 'invalid_request', message, param: 'max_tokens' });
  }
  if (stop.includes('')) {
    throw new SidaError({ code: 'invalid_request', message: 'A stop string is empty', param: 'stop' });
  }
  if (stop.length > 0) requireTokenizer(limits, 'stop');
  const work: ItemWork = { kind: 'generate', maxTokens, logprobs, choices: choicesOf(request) };
  return prompts.map((prompt, index) => {
    const tokens = typeof prompt === 'string' ? requireTokenizer(limits, 'prompt').encode(prompt) : prompt;
    return checked({ tokens, work }, 'prompt', `Prompt ${index}`, limits);
  });
}

function choicesOf({ choices = 1, sampling }: CompleteRequest): (Sampling | null)[] {
  return Array.from({ length: choices }, (_, choice) => {
    return sampling === undefined ? null : { ...sampling, seed: choiceSeed(sampling.seed, choice) };
  });
}

function checked(input: PreparedInput, param: string, name: string, limits: ModelLimits): PreparedInput {
  const { tokens, work } = input;
  const { vocabSize } = limits.shape;
  if (tokens.length === 0) {
    throw new SidaError({ code: 'invalid_request', message: `${name} has no tokens`, param });
  }
  // A decoder-only model takes its prompt in chunks.
  if (isEncoderDecoder(limits.shape)) checkLength(tokens.length, param, name, limits.maxBatchTokens);
  else checkContext(tokens.length, work, param, name, limits);
  const outside = tokens.find((id) => !Number.isInteger(id) || id < 0 || id >= vocabSize);
  if (outside !== undefined) {
    const message = `${name} has the token id ${outside}, the model has ${vocabSize} embedding rows`;
    throw new SidaError({ code: 'invalid_request', message, param, details: { vocab_size: vocabSize } });
  }
  const needed = itemPages(tokens.length, work, limits.kvPageTokens, isEncoderDecoder(limits.shape));
  if (needed > limits.kvPages) {
    throw new SidaError({
      code: 'cannot_run',
      message: `${name} with its output needs ${needed} KV pages of ${limits.kvPageTokens} tokens, the cache has ${limits.kvPages}`,
      param,
      details: { needed_pages: needed, kv_pages: limits.kvPages, page_tokens: limits.kvPageTokens },
    });
  }
  return input;
}

function checkLength(tokens: number, param: string, name: string, limit: number): void {
  if (tokens <= limit) return;
  throw new SidaError({
    code: 'cannot_run',
    message: `${name} has ${tokens} tokens, the limit is ${limit}`,
    param,
    details: { tokens, limit },
  });
}

/** All that a sequence is ever fed: a generation's last token is not. */
function checkContext(
  prompt: number,
  work: ItemWork,
  param: string,
  name: string,
  { shape: { contextTokens } }: ModelLimits,
): void {
  const more =
    work.kind === 'generate'
      ? work.maxTokens - 1
      : work.plan.inputs.reduce((most, { tokens }) => Math.max(most, tokens.length), 0);
  if (contextTokens === null || prompt + more <= contextTokens) return;
  const what = work.kind === 'generate' ? `"max_tokens" of ${work.maxTokens}` : 'its longest label';
  throw new SidaError({
    code: 'cannot_run',
    message: `${name} has ${prompt} tokens, with ${what} the model would see ${prompt + more}; its context is ${contextTokens} tokens`,
    param,
    details: { tokens: prompt, needed: prompt + more, limit: contextTokens },
  });
}
