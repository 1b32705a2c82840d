/** Checks a request against the served model before the engine does any work. */
import { SidaError } from '../../errors.js';
import { isEncoderDecoder } from '../../model/model-shape.js';
import type { ModelInfo } from '../../protocol/engine-messages.js';
import { checkTextBytes } from '../../text/text-bytes.js';

/** Limits that the server was started with. */
export interface RequestLimits {
  maxInputBytes: number;
  maxBatchTokens: number;
  /** Tokens that the KV cache holds. */
  kvTokens: number;
}

export function requireTokenizer(model: ModelInfo, param: string): void {
  if (model.hasTokenizer) return;
  const message = `The model ${JSON.stringify(model.name)} has no tokenizer: only completions of token ids are served`;
  throw new SidaError({ code: 'invalid_request', message, param });
}

export function checkText(text: string, { maxInputBytes }: RequestLimits, param: string): void {
  checkTextBytes(Buffer.byteLength(text), maxInputBytes, param);
}

export function checkTokenIds(ids: number[], model: ModelInfo, limits: RequestLimits, param: string): void {
  const { vocabSize } = model.shape;
  const outside = ids.find((id) => id >= vocabSize);
  if (outside !== undefined) {
    const message = `The token id ${outside} is outside the vocabulary of ${vocabSize}`;
    throw new SidaError({ code: 'invalid_request', message, param });
  }
  const { limit, why } = promptLimit(model, limits);
  if (ids.length > limit) {
    throw new SidaError({
      code: 'cannot_run',
      message: `The prompt has ${ids.length} tokens; ${why} at most ${limit}`,
      param,
      details: { tokens: ids.length, limit },
    });
  }
}

export function checkMaxTokens(maxTokens: number, { kvTokens }: RequestLimits): void {
  if (maxTokens <= kvTokens) return;
  throw new SidaError({
    code: 'cannot_run',
    message: `Expected "max_tokens" to be at most ${kvTokens}, which is what the KV cache holds, but got ${maxTokens}`,
    param: 'max_tokens',
  });
}

/** An encoder runs its input in one pass. A decoder-only model splits a prompt into as many passes as it needs. */
function promptLimit(
  { shape }: ModelInfo,
  { maxBatchTokens, kvTokens }: RequestLimits,
): { limit: number; why: string } {
  if (isEncoderDecoder(shape)) return { limit: maxBatchTokens, why: 'one pass takes' };
  const { contextTokens } = shape;
  return contextTokens !== null && contextTokens < kvTokens
    ? { limit: contextTokens, why: "the model's context holds" }
    : { limit: kvTokens, why: 'the KV cache holds' };
}

/** Returns the name of an input in errors: `input`, or `input.3` in a list. */
export function inputName(field: string, index: number, list: boolean): string {
  return list ? `${field}.${index}` : field;
}
