/**
 * Tokens of texts by their bytes. Texts are tokenized in the engine process, after admission, so what a request
 * reserves and what the queue counts are estimates.
 */

export interface TokenCost {
  /** Token ids that were sent, and the most that may be generated. */
  known: number;
  /** Of texts. */
  estimated: number;
}

/** Plain texts have 2.4 to 4.5. */
const BYTES_PER_TOKEN = 3;
/** Less than plain texts have: a reservation is rather too large, and shrinks to what was used. */
const BYTES_PER_RESERVED_TOKEN = 2;

/** Tokens of inputs, about; at least 1 for each. */
export function inputTokens(inputs: readonly (string | readonly number[])[]): number {
  return inputs.reduce((sum, input) => sum + Math.max(1, tokensOf(input)), 0);
}

function tokensOf(input: string | readonly number[]): number {
  return typeof input === 'string' ? Math.ceil(Buffer.byteLength(input) / BYTES_PER_TOKEN) : input.length;
}

/** Tokens to reserve for texts. */
export function reservedTokens(texts: readonly string[]): number {
  return texts.reduce((sum, text) => sum + Math.ceil(Buffer.byteLength(text) / BYTES_PER_RESERVED_TOKEN), 0);
}
