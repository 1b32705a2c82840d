/** Inputs in the form that the batcher takes, and checks that refuse inputs the model can never run. */
import { type KvRoom, pageNeed, windowSizes } from '../../batching/kv-pages.js';
import { leastPages } from '../../batching/window-pages.js';
import { SidaError } from '../../errors.js';
import { isEncoderDecoder } from '../../model/model-shape.js';
import type { ModelShape } from '../../native/addon-types.js';
import type { ItemWork } from '../../protocol/item-work.js';
import type { TextToEncode } from '../../protocol/tokenizer-messages.js';
import type { TokenTexts } from '../../text/detokenizer.js';

import { checkTextBytes } from '../../text/text-bytes.js';
import { checkBytesTogether } from './text-limits.js';

/** Limits of the open model. */
export interface ModelLimits extends Omit<KvRoom, 'encoderDecoder'> {
  shape: ModelShape;
  /** Longest text in bytes. */
  maxInputBytes: number;
  /** Texts of token ids. A model without a tokenizer accepts token ids only. */
  texts: TokenTexts | undefined;
}

/** Throws request_too_large. The server has checked its requests; a job can also come from elsewhere. */
export function checkTexts(texts: readonly TextToEncode[], { maxInputBytes }: ModelLimits): void {
  let sum = 0;
  for (const { text } of texts) {
    const bytes = Buffer.byteLength(text);
    checkTextBytes(bytes, maxInputBytes);
    sum += bytes;
  }
  checkBytesTogether(sum, 'input');
}

export interface PreparedInput {
  tokens: number[];
  work: ItemWork;
}

/** Throws invalid_request if the model has no tokenizer. */
export function requireTexts({ texts }: ModelLimits, param: string): TokenTexts {
  if (texts !== undefined) return texts;
  const message = 'This model has no tokenizer.json: it takes token ids, not text';
  throw new SidaError({ code: 'invalid_request', message, param });
}

/** Returns the input, or throws if the model can never run it. Errors mention `param` and `name`. */
export function checkedInput(
  input: PreparedInput,
  param: string,
  name: string,
  limits: ModelLimits,
): PreparedInput {
  const { tokens, work } = input;
  const { vocabSize } = limits.shape;
  if (tokens.length === 0) {
    throw new SidaError({ code: 'invalid_request', message: `${name} has no tokens`, param });
  }
  // A decoder-only model runs its prompt in chunks, so the batch size does not limit the prompt.
  if (isEncoderDecoder(limits.shape)) checkLength(tokens.length, param, name, limits.maxBatchTokens);
  else checkContext(tokens.length, work, param, name, limits);
  const outside = tokens.find((id) => !Number.isInteger(id) || id < 0 || id >= vocabSize);
  if (outside !== undefined) {
    const message = `${name} has the token id ${outside}, the model has ${vocabSize} embedding rows`;
    throw new SidaError({ code: 'invalid_request', message, param, details: { vocab_size: vocabSize } });
  }
  checkPages(input, param, name, limits);
  return input;
}

function checkPages({ tokens, work }: PreparedInput, param: string, name: string, limits: ModelLimits): void {
  const { kvPages, kvPageTokens, kvWindows } = limits;
  const room = { ...limits, encoderDecoder: isEncoderDecoder(limits.shape) };
  const { pages, windows } = pageNeed(tokens.length, work, room);
  const refuse = (needed: number, there: number, where: string) => {
    throw new SidaError({
      code: 'cannot_run',
      message: `${name} with its output needs ${needed} KV pages of ${kvPageTokens} tokens${where}, the cache has ${there}`,
      param,
      details: { needed_pages: needed, kv_pages: there, page_tokens: kvPageTokens },
    });
  };
  if (pages > kvPages) refuse(pages, kvPages, '');
  kvWindows.forEach((layers, i) => {
    const needed = leastPages(windows[i]!, windowSizes(layers, limits));
    if (needed > layers.pages) refuse(needed, layers.pages, ` in layers with a window of ${layers.window}`);
  });
}

export function checkLength(tokens: number, param: string, name: string, limit: number): void {
  if (tokens <= limit) return;
  throw new SidaError({
    code: 'cannot_run',
    message: `${name} has ${tokens} tokens, the limit is ${limit}`,
    param,
    details: { tokens, limit },
  });
}

/** Checks all tokens that a sequence is fed against the context. The last token of a generation is not fed. */
function checkContext(
  prompt: number,
  work: ItemWork,
  param: string,
  name: string,
  { shape: { contextTokens } }: ModelLimits,
): void {
  const more =
    work.kind === 'score'
      ? work.plan.inputs.reduce((most, { tokens }) => Math.max(most, tokens.length), 0)
      : work.maxTokens - 1;
  if (contextTokens === null || prompt + more <= contextTokens) return;
  const what = work.kind === 'score' ? 'its longest label' : `"max_tokens" of ${work.maxTokens}`;
  throw new SidaError({
    code: 'cannot_run',
    message: `${name} has ${prompt} tokens, with ${what} the model would see ${prompt + more}; its context is ${contextTokens} tokens`,
    param,
    details: { tokens: prompt, needed: prompt + more, limit: contextTokens },
  });
}
