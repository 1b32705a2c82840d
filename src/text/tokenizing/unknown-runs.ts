/**
 * Joins neighbouring unknown tokens into one. The library looks its growing text up once for each token, which takes
 * quadratic time. This joins a run once and returns the same tokens.
 */

import type { Pace } from './pace.js';

interface Vocabulary {
  tokens_to_ids: ReadonlyMap<string, number>;
  unk_token_id: number | undefined;
}

export class UnknownRuns {
  readonly #ids: ReadonlyMap<string, number>;
  readonly #unknownId: number | undefined;
  /** Texts of the unknown token itself, such as `<unk>`. */
  readonly #unknownTexts: ReadonlySet<string>;
  readonly #longest: number;
  readonly #pace: Pace;

  constructor({ tokens_to_ids, unk_token_id }: Vocabulary, pace: Pace) {
    this.#pace = pace;
    this.#ids = tokens_to_ids;
    this.#unknownId = unk_token_id;
    const named = [...tokens_to_ids].filter(([, id]) => id === unk_token_id).map(([text]) => text);
    this.#unknownTexts = new Set(named);
    this.#longest = Math.max(0, ...named.map((text) => text.length));
  }

  fuse(tokens: readonly string[]): string[] {
    const fused: string[] = [];
    for (let at = 0; at < tokens.length; ) {
      const begin = at++;
      if (!this.#unknown(tokens[begin]!)) {
        fused.push(tokens[begin]!);
        continue;
      }
      while (at < tokens.length && this.#unknown(tokens[at]!)) at += 1;
      fused.push(this.#joined(tokens, begin, at));
    }
    return fused;
  }

  #unknown(token: string): boolean {
    this.#pace.step();
    return (this.#ids.get(token) ?? this.#unknownId) === this.#unknownId;
  }

  /** The library stops to join when the text so far is the unknown token. Without such a token it never joins. */
  #joined(tokens: readonly string[], begin: number, end: number): string {
    if (this.#unknownId === undefined) return tokens[begin]!;
    let text = '';
    for (let at = begin; at < end && text.length < this.#longest; at += 1) {
      text += tokens[at]!;
      if (this.#unknownTexts.has(text)) return text;
    }
    return tokens.slice(begin, end).join('');
  }
}
