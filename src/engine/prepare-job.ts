/** Turns a request into the inputs of the engine, or refuses it with the numbers. */
import { SidaError } from '../errors.js';
import { itemPages } from '../inference/kv-pages.js';
import type { ItemWork } from '../inference/messages.js';
import { MAX_LOGIT_ROWS } from '../inference/native-steps.js';
import { planScoring } from '../inference/scoring.js';
import type { ModelShape } from '../native/addon-types.js';
import type { Tokenizer } from '../tokenizer/tokenizer.js';
import type { JobRequest, RunRequest } from './messages.js';
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
  const { decoderStartTokenId, eosTokenId } = limits.shape;
  const labelIds = labels.map((label) => tokenizer.encodePlain(label));
  const plan = planScoring(labelIds, decoderStartTokenId, eosTokenId);
  // Each of its tokens is a row of logits, and a step returns no more than these.
  const maxLabelTokens = Math.min(limits.maxBatchTokens, MAX_LOGIT_ROWS);
  for (const { tokens } of plan.inputs) checkLength(tokens.length, 'labels', 'A label', maxLabelTokens);
  return inputs.map((text, index) => {
    const input: PreparedInput = { tokens: tokenizer.encode(text), work: { kind: 'score', plan } };
    return checked(input, 'input', `Input ${index}`, limits);
  });
}

function prepareComplete(
  request: Extract<JobRequest, { kind: 'complete' }>,
  limits: ModelLimits,
): PreparedInput[] {
  const { prompts, maxTokens, logprobs, stop } = request;
  if (!Number.isSafeInteger(maxTokens) || maxTokens < 1) {
    const message = `Expected "max_tokens" to be a positive integer, found ${maxTokens}`;
    throw new SidaError({ code: 'invalid_request', message, param: 'max_tokens' });
  }
  if (stop.includes('')) {
    throw new SidaError({ code: 'invalid_request', message: 'A stop string is empty', param: 'stop' });
  }
  if (stop.length > 0) requireTokenizer(limits, 'stop');
  const work: ItemWork = { kind: 'generate', maxTokens, logprobs };
  return prompts.map((prompt, index) => {
    const tokens = typeof prompt === 'string' ? requireTokenizer(limits, 'prompt').encode(prompt) : prompt;
    return checked({ tokens, work }, 'prompt', `Prompt ${index}`, limits);
  });
}

function checked(input: PreparedInput, param: string, name: string, limits: ModelLimits): PreparedInput {
  const { tokens, work } = input;
  const { vocabSize } = limits.shape;
  if (tokens.length === 0) {
    throw new SidaError({ code: 'invalid_request', message: `${name} has no tokens`, param });
  }
  checkLength(tokens.length, param, name, limits.maxBatchTokens);
  const outside = tokens.find((id) => !Number.isInteger(id) || id < 0 || id >= vocabSize);
  if (outside !== undefined) {
    const message = `${name} has the token id ${outside}, the model has ${vocabSize} embedding rows`;
    throw new SidaError({ code: 'invalid_request', message, param, details: { vocab_size: vocabSize } });
  }
  const needed = itemPages(tokens.length, work, limits.kvPageTokens);
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
