/**
 * Estimates the tokens of texts from their bytes. Texts are tokenized in the engine process, after admission, so a
 * request's reservation and the queue's counts are estimates.
 */

/** What a request takes of a limit, in the limit's unit: tokens or bytes. */
export interface RequestCost {
  /** Certain: for tokens, the ids in the request and the most tokens that may be generated. */
  known: number;
  /** Estimated: for tokens, the tokens of the request's texts. */
  estimated: number;
}

/** Plain texts have 2.4 to 4.5 bytes per token. */
const BYTES_PER_TOKEN = 3;
/** Below that of plain texts, because a reservation should rather be too large. It is later reduced to actual use. */
const BYTES_PER_RESERVED_TOKEN = 2;
/** Above that of plain texts, so that they are charged by their tokens. */
const BYTES_PER_LONGEST_TOKEN = 8;

/** Approximate tokens of the inputs, at least 1 for each. */
export function inputTokens(inputs: readonly (string | readonly number[])[]): number {
  return inputs.reduce((sum, input) => sum + Math.max(1, tokensOf(input)), 0);
}

function tokensOf(input: string | readonly number[]): number {
  return typeof input === 'string' ? inputTokensOf(Buffer.byteLength(input)) : input.length;
}

/** Approximate tokens of an input of so many bytes. */
export function inputTokensOf(bytes: number): number {
  return Math.ceil(bytes / BYTES_PER_TOKEN);
}

/** Bytes that a job's texts and lists of numbers take while it waits. */
export function heldBytes(inputs: readonly (string | readonly number[])[]): number {
  return inputs.reduce(
    (sum, input) => sum + (typeof input === 'string' ? Buffer.byteLength(input) : 8 * input.length),
    0,
  );
}

/** Tokens to reserve for a text of so many bytes. */
export function reservedTokensOf(bytes: number): number {
  return Math.ceil(bytes / BYTES_PER_RESERVED_TOKEN);
}

/** Tokens to reserve for the texts. */
export function reservedTokens(texts: readonly string[]): number {
  return tokensAt(BYTES_PER_RESERVED_TOKEN, texts);
}

/**
 * Tokens to charge at least for texts that were encoded. A text of unknown characters is a single token, and its
 * encoding takes as long as that of any other text.
 */
export function leastTokens(texts: readonly string[]): number {
  return tokensAt(BYTES_PER_LONGEST_TOKEN, texts);
}

/** Tokens to charge for texts that were encoded and then refused. */
export function refusedTokens(texts: readonly string[]): number {
  return tokensAt(BYTES_PER_TOKEN, texts);
}

function tokensAt(bytesPerToken: number, texts: readonly string[]): number {
  return texts.reduce((sum, text) => sum + Math.ceil(Buffer.byteLength(text) / bytesPerToken), 0);
}
