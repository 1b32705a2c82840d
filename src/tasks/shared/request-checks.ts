/** Checks a request against the served model before the engine does any work. */
import { SidaError } from '../../errors.js';
import { embedsOnly, hasEncoder, mostEncoderTokens } from '../../native/model-shape.js';
import type { ModelInfo } from '../../protocol/engine-messages.js';
import { checkTextBytes } from '../../text/text-bytes.js';

export interface RequestLimits {
  maxInputBytes: number;
  maxBatchTokens: number;
}

/** `options` are those of the server. */
export function limitsOf(
  { maxInputBytes }: ModelInfo,
  { maxBatchTokens }: Pick<RequestLimits, 'maxBatchTokens'>,
): RequestLimits {
  return { maxInputBytes, maxBatchTokens };
}

export function requireTokenizer(model: ModelInfo, param: string): void {
  if (model.hasTokenizer) return;
  const message = `The model ${JSON.stringify(model.name)} has no tokenizer: only completions of token ids are served`;
  throw new SidaError({ code: 'invalid_request', message, param });
}

/** Throws cannot_run if the model is an encoder alone. */
export function requireDecoder(shape: ModelInfo['shape'], param = 'model'): void {
  if (!embedsOnly(shape)) return;
  const message = `This model (${shape.family}) embeds only: it has an encoder and no decoder; /v1/embeddings takes its inputs`;
  throw new SidaError({ code: 'cannot_run', message, param });
}

export function checkText(text: string, { maxInputBytes }: RequestLimits, param: string): void {
  checkTextBytes(Buffer.byteLength(text), maxInputBytes, param);
}

export function requirePositive(value: number, param: string): void {
  if (Number.isSafeInteger(value) && value >= 1) return;
  const message = `Expected "${param}" to be a positive integer, found ${value}`;
  throw new SidaError({ code: 'invalid_request', message, param });
}

export function checkVocabulary(
  ids: readonly number[],
  { vocabSize }: Pick<ModelInfo['shape'], 'vocabSize'>,
  param: string,
): void {
  const outside = ids.find((id) => id >= vocabSize);
  if (outside === undefined) return;
  const message = `The token id ${outside} is outside the vocabulary of ${vocabSize}`;
  throw new SidaError({ code: 'invalid_request', message, param });
}

function encoderBound(
  { shape }: ModelInfo,
  { maxBatchTokens }: RequestLimits,
): { limit: number; why: string } {
  const limit = mostEncoderTokens(shape, maxBatchTokens);
  const why =
    limit < maxBatchTokens ? 'the model takes at most' : 'one pass (--max-batch-tokens) takes at most';
  return { limit, why };
}

export function checkTokenIds(ids: number[], model: ModelInfo, limits: RequestLimits, param: string): void {
  checkVocabulary(ids, model.shape, param);
  const { limit, why } = hasEncoder(model.shape) ? encoderBound(model, limits) : contextBound(model);
  if (ids.length > limit) {
    throw new SidaError({
      code: 'context_length_exceeded',
      message: `The prompt has ${ids.length} tokens; ${why} ${limit} tokens`,
      param,
      details: { tokens: ids.length, limit },
    });
  }
}

type Prompts = string | number[] | (string | number[])[];

/** The prompts of a request as a list. `field` names them in errors. */
export function checkedPrompts(
  given: Prompts,
  field: string,
  model: ModelInfo,
  limits: RequestLimits,
): (string | number[])[] {
  const list = isPromptList(given);
  const prompts = isPromptList(given) ? given : [given];
  for (const [index, each] of prompts.entries()) {
    const param = inputName(field, index, list);
    if (typeof each === 'string') {
      requireTokenizer(model, param);
      checkText(each, limits, param);
    } else {
      checkTokenIds(each, model, limits, param);
    }
  }
  return prompts;
}

function isPromptList(prompts: Prompts): prompts is (string | number[])[] {
  return Array.isArray(prompts) && typeof prompts[0] !== 'number';
}

/** Refuses more tokens than the model can have with any prompt. */
export function checkMaxTokens(maxTokens: number, model: ModelInfo, param = 'max_tokens'): void {
  const { limit, why } = contextBound(model);
  if (maxTokens <= limit) return;
  throw new SidaError({
    code: 'context_length_exceeded',
    message: `Expected "${param}" to be at most ${limit}, but got ${maxTokens}; ${why} ${limit} tokens`,
    param,
    details: { tokens: maxTokens, limit },
  });
}

interface LengthBound {
  limit: number;
  /** The words before the limit in an error. */
  why: string;
}

function contextBound({ shape, contextTokens: limit }: ModelInfo): LengthBound {
  if (limit === shape.contextTokens) return { limit, why: "the model's maximum context length is" };
  const flag = hasEncoder(shape) ? '--kv-tokens' : '--context';
  return { limit, why: `with ${flag} of this server, the maximum context length is` };
}

/** Returns the name of an input in errors: `input`, or `input.3` in a list. */
export function inputName(field: string, index: number, list: boolean): string {
  return list ? `${field}.${index}` : field;
}
