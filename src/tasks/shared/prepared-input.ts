/** Inputs in the form that the batcher takes, and checks that refuse inputs the model can never run. */

import { SidaError } from '../../errors.js';
import type { ModelShape } from '../../native/addon-types.js';
import { hasEncoder, mostEncoderTokens } from '../../native/model-shape.js';
import type { ItemWork } from '../../protocol/item-work.js';
import type { TextToEncode } from '../../protocol/tokenizer-messages.js';
import { type KvRoom, leastPages, pageNeed, RECURRENT, windowSizes } from '../../scheduler/page-need.js';
import type { ModelChat } from '../../text/chat/answer-format.js';
import type { TokenTexts } from '../../text/detokenizer.js';

import { checkTextBytes } from '../../text/text-bytes.js';
import { requireDecoder } from './request-checks.js';
import { checkBytesTogether } from './text-limits.js';

/** Limits of the open model. */
export interface ModelLimits extends Omit<KvRoom, 'encodes'> {
  shape: ModelShape;
  /** Most tokens of a sequence. */
  contextTokens: number;
  /** Longest text in bytes. */
  maxInputBytes: number;
  /** Texts of token ids. A model without a tokenizer accepts token ids only. */
  texts: TokenTexts | undefined;
  /** Undefined for a model without a chat template. */
  chat?: ModelChat | undefined;
}

/** Throws request_too_large. The server has checked its requests; a job can also come from elsewhere. */
export function checkTexts(texts: readonly TextToEncode[], limits: ModelLimits): void {
  let sum = 0;
  for (const { text, chat } of texts) {
    const bytes = Buffer.byteLength(text);
    // A conversation consists of many texts.
    if (!chat) checkTextBytes(bytes, limits.maxInputBytes);
    sum += bytes;
  }
  checkBytesTogether(sum, limits, 'input');
}

export interface PreparedInput {
  /** In shared memory where they are the tokenizer's own. */
  tokens: Int32Array;
  work: ItemWork;
}

/** Throws invalid_request if the model has no tokenizer. */
export function requireTexts({ texts }: ModelLimits, param: string): TokenTexts {
  if (texts !== undefined) return texts;
  const message = 'This model has no tokenizer.json: it takes token ids, not text';
  throw new SidaError({ code: 'invalid_request', message, param });
}

/**
 * Returns the input, or throws if the model can never run it. Errors mention `param` and `name`, and the field that
 * limits the tokens of its output: null if the request has none.
 */
export function checkedInput(
  input: PreparedInput,
  param: string,
  name: string,
  limits: ModelLimits,
  maxTokensField: string | null = 'max_tokens',
): PreparedInput {
  const { tokens, work } = input;
  const { vocabSize } = limits.shape;
  if (tokens.length === 0) {
    throw new SidaError({ code: 'invalid_request', message: `${name} has no tokens`, param });
  }
  if (work.kind !== 'embed') requireDecoder(limits.shape, param);
  // A decoder-only model runs its prompt in chunks, so the batch size does not limit the prompt.
  if (hasEncoder(limits.shape)) checkPass(tokens.length, param, name, limits);
  else checkContext(tokens.length, tokensBehind(work, maxTokensField), param, name, limits);
  const outside = tokens.find((id) => !Number.isInteger(id) || id < 0 || id >= vocabSize);
  if (outside !== undefined) {
    const message = `${name} has the token id ${outside}, the model has ${vocabSize} embedding rows`;
    throw new SidaError({ code: 'invalid_request', message, param, details: { vocab_size: vocabSize } });
  }
  checkPages(input, param, name, limits);
  return input;
}

function checkPages({ tokens, work }: PreparedInput, param: string, name: string, limits: ModelLimits): void {
  const lack = lackOfPages(tokens.length, work, limits);
  if (lack === undefined) return;
  const { needed, there, what } = lack;
  const several = severalOf(work);
  // Where one of the sequences fits, their number is at fault.
  const blamed =
    several && lackOfPages(tokens.length, several.one, limits) === undefined ? several : undefined;
  const output = blamed === undefined ? 'its output' : `its output in ${blamed.what}`;
  const { kvPageTokens } = limits;
  throw new SidaError({
    code: 'cannot_run',
    message: `${name} with ${output} needs ${needed} ${what}, the cache has ${there}`,
    param: blamed?.field ?? param,
    details: { needed_pages: needed, kv_pages: there, page_tokens: kvPageTokens },
  });
}

/** The sequences that share a prompt, the field with their number, and the same work with one of them. */
function severalOf(work: ItemWork): { what: string; field: string; one: ItemWork } | undefined {
  if (work.kind === 'search') {
    return { what: `${work.beams} beams`, field: 'num_beams', one: { ...work, beams: 1 } };
  }
  if (work.kind === 'score') {
    const { plan } = work;
    const one: ItemWork = { ...work, plan: { ...plan, inputs: plan.inputs.slice(0, 1) } };
    return { what: `${plan.labels} labels`, field: 'labels', one };
  }
  if (work.kind !== 'generate' || work.choices.length === 1) return undefined;
  const { choices } = work;
  return { what: `${choices.length} choices`, field: 'n', one: { ...work, choices: choices.slice(0, 1) } };
}

interface LackOfPages {
  needed: number;
  there: number;
  /** What it needs, in an error. */
  what: string;
}

function lackOfPages(promptTokens: number, work: ItemWork, limits: ModelLimits): LackOfPages | undefined {
  const { kvPages, kvWindows } = limits;
  const room = { ...limits, encodes: hasEncoder(limits.shape) };
  const { pages, windows } = pageNeed(promptTokens, work, room);
  const what = `KV pages of ${limits.kvPageTokens} tokens`;
  if (pages > kvPages) return { needed: pages, there: kvPages, what };
  for (const [i, layers] of kvWindows.entries()) {
    const needed = leastPages(windows[i]!, windowSizes(layers, limits));
    if (needed <= layers.pages) continue;
    const windowed = `${what} in layers with a window of ${layers.window}`;
    return {
      needed,
      there: layers.pages,
      what: layers.window === RECURRENT ? 'recurrent states (--kv-states)' : windowed,
    };
  }
  return undefined;
}

/** Checks a text that an encoder, or a decoder beside it, takes in one pass. */
export function checkPass(
  tokens: number,
  param: string,
  name: string,
  { shape, maxBatchTokens }: ModelLimits,
): void {
  const limit = mostEncoderTokens(shape, maxBatchTokens);
  if (tokens <= limit) return;
  const whose = limit < maxBatchTokens ? 'that of the model' : 'which one pass takes (--max-batch-tokens)';
  throw new SidaError({
    code: 'context_length_exceeded',
    message: `${name} has ${tokens} tokens; the maximum length is ${limit} tokens, ${whose}`,
    param,
    details: { tokens, limit },
  });
}

/** Checks all tokens that a sequence is fed against the context. The last token of a generation is not fed. */
function checkContext(
  prompt: number,
  { more, what }: TokensBehind,
  param: string,
  name: string,
  { shape, contextTokens: limit }: ModelLimits,
): void {
  if (prompt + more <= limit) return;
  const which = limit === shape.contextTokens ? "the model's" : 'with --context of this server, the';
  throw new SidaError({
    code: 'context_length_exceeded',
    message: `${name} has ${prompt} tokens${what === '' ? '' : `, with ${what} the model would see ${prompt + more}`}; ${which} maximum context length is ${limit} tokens`,
    param,
    details: { tokens: prompt, needed: prompt + more, limit },
  });
}

/** Tokens that a sequence is fed after its prompt, and what an error calls them; empty if it says nothing of them. */
interface TokensBehind {
  more: number;
  what: string;
}

function tokensBehind(work: ItemWork, maxTokensField: string | null): TokensBehind {
  if (work.kind === 'embed') return { more: 0, what: '' };
  if (work.kind !== 'score') {
    const { maxTokens } = work;
    return {
      more: maxTokens - 1,
      what: maxTokensField === null ? '' : `"${maxTokensField}" of ${maxTokens}`,
    };
  }
  const more = work.plan.inputs.reduce((most, { tokens }) => Math.max(most, tokens.length), 0);
  return { more, what: 'its longest label' };
}
