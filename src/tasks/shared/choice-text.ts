/** Builds one choice of a generation from its tokens: text, stop strings and finish reason. */
import type { CompletionDelta, TokenLogprobs } from '../../protocol/engine-messages.js';
import type { GeneratedToken } from '../../protocol/inference-messages.js';
import type { TokenTexts } from '../../text/detokenizer.js';
import { IncrementalDecoder } from '../../text/incremental-decoder.js';
import { StopStrings } from '../../text/stop-strings.js';
import { tokenName } from '../../text/token-name.js';
import type { StoredChoice } from './stored.js';

export interface ChoiceTextOptions {
  index: number;
  maxTokens: number;
  stop: readonly string[];
  endTokens: readonly number[];
  /** Turns ids into text. */
  decode: (ids: readonly number[]) => string;
  /** The token as log-probabilities name it. */
  tokenText: (id: number) => string;
  logprobs: boolean;
  /** Whether log-probabilities leave the token out. Default: none. */
  unnamed?: (id: number) => boolean;
  /** What the text begins with, before any token. Default: nothing. */
  prefix?: string;
  /** The token of the prompt that the text follows. Default: none. */
  before?: number | undefined;
}

/** How the text and the names of tokens are found. Without a tokenizer the text stays empty. */
export function plainTexts(
  texts: TokenTexts | undefined,
  showSpecialTokens: boolean,
): Pick<ChoiceTextOptions, 'decode' | 'tokenText'> {
  return {
    decode: (ids) => texts?.decode([...ids], !showSpecialTokens) ?? '',
    tokenText: texts === undefined ? (id) => `<${id}>` : tokenName(texts),
  };
}

export class ChoiceText {
  readonly #options: ChoiceTextOptions;
  readonly #decoder: IncrementalDecoder;
  readonly #stops: StopStrings;
  readonly #choice: StoredChoice;
  /** Sent with the first token. */
  #prefix: string;
  /** Characters of the prefix, and of what was decoded from the tokens so far. */
  #decoded: number;
  #finished = false;

  constructor(options: ChoiceTextOptions) {
    const { index, decode, stop, logprobs, prefix = '', before } = options;
    this.#options = options;
    this.#decoder = new IncrementalDecoder(decode, before);
    this.#stops = new StopStrings(stop);
    this.#prefix = prefix;
    this.#decoded = charactersIn(prefix);
    this.#choice = { index, text: '', tokenIds: [], finishReason: 'length', logprobs: logprobs ? [] : null };
  }

  get choice(): StoredChoice {
    return this.#choice;
  }

  /**
   * Returns what the token adds. Returns undefined after the end, since tokens may still arrive after a stop string.
   */
  push(token: GeneratedToken): CompletionDelta | undefined {
    if (this.#finished) return undefined;
    const choice = this.#choice;
    choice.tokenIds.push(token.id);
    if (token.experts !== undefined) {
      choice.experts ??= [];
      choice.experts.push({ token: this.#options.tokenText(token.id), layers: token.experts });
    }
    const offset = this.#decoded;
    let { text, stop } = this.#stops.push(this.#decode(token.id));
    const ended = this.#options.endTokens.includes(token.id);
    const full = choice.tokenIds.length === this.#options.maxTokens;
    if (stop === undefined && (ended || full)) {
      const rest = this.#stops.push(this.#decoder.finish());
      text += rest.stop === undefined ? rest.text + this.#stops.finish() : rest.text;
      stop = rest.stop;
    }
    this.#finished = stop !== undefined || ended || full;
    if (stop !== undefined) choice.stop = stop;
    if (stop !== undefined || ended) choice.finishReason = 'stop';
    text = this.#prefix + text;
    this.#prefix = '';
    choice.text += text;
    const logprobs = token.logprobs === undefined ? null : this.#named(token.id, offset, token.logprobs);
    if (logprobs !== null) choice.logprobs?.push(...logprobs);
    return {
      index: choice.index,
      text,
      tokenIds: [token.id],
      logprobs,
      finishReason: this.#finished ? choice.finishReason : null,
    };
  }

  #decode(id: number): string {
    const text = this.#decoder.push(id);
    this.#decoded += charactersIn(text);
    return text;
  }

  #named(id: number, offset: number, logprobs: NonNullable<GeneratedToken['logprobs']>): TokenLogprobs[] {
    const { tokenText, unnamed } = this.#options;
    return unnamed?.(id) ? [] : [namedToken(id, offset, logprobs, tokenText)];
  }
}

/** As Python counts them, which JavaScript does not. */
export function charactersIn(text: string): number {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

/** The log-probabilities of a token as answers name them. `offset` is where its text begins. */
export function namedToken(
  id: number,
  offset: number,
  { logprob, top }: Pick<TokenLogprobs, 'logprob'> & Pick<NonNullable<GeneratedToken['logprobs']>, 'top'>,
  tokenText: (id: number) => string,
): TokenLogprobs {
  return {
    id,
    token: tokenText(id),
    offset,
    logprob,
    top: top.map((ranked) => ({ id: ranked.id, token: tokenText(ranked.id), logprob: ranked.logprob })),
  };
}
