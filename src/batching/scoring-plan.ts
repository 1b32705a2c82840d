/**
 * Scores labels as continuations: score(label) = Σ log p(token | tokens before it) under teacher forcing. Labels
 * share rows wherever their prefixes agree, so single-token labels together need at most one fed token.
 */
import { SidaError } from '../errors.js';
import type { ScoringPlan, ScoringRow, ScoringTarget } from '../protocol/item-work.js';

/** More than any vocabulary has, and few enough for exact keys. */
const TOKENS = 2 ** 24;

/**
 * `labels` are token ids without special tokens. If `startToken` is null, labels continue the prompt. Throws
 * invalid_request if two labels cannot be distinguished.
 */
export function planScoring(
  labels: readonly number[][],
  startToken: number | null,
  endToken: number | undefined,
): ScoringPlan {
  const complete = distinguishable(labels, endToken);
  const start = startToken === null ? [] : [startToken];
  const prefixes = new PrefixTree();
  const fed = complete.map((ids) => {
    const tokens = [...start, ...ids.slice(0, -1)];
    return { tokens, path: prefixes.add(tokens) };
  });
  const first: ScoringTarget[] = [];
  const inputs: ScoringPlan['inputs'] = [];
  /** By prefix: the row that predicts the next token. */
  const rowOf = new Map<number, ScoringRow>();
  const seen = new Set<number>();
  for (const { tokens, path } of fed) {
    const end = path.at(-1);
    if (end === undefined || prefixes.continues(end) || seen.has(end)) continue;
    seen.add(end);
    const rows: ScoringRow[] = [];
    for (const [position, prefix] of path.entries()) {
      if (rowOf.has(prefix)) continue;
      const row: ScoringRow = { position, targets: [] };
      rowOf.set(prefix, row);
      rows.push(row);
    }
    inputs.push({ tokens, rows });
  }
  complete.forEach((ids, label) => {
    ids.forEach((token, step) => {
      const before = start.length + step - 1;
      const targets = before < 0 ? first : rowOf.get(fed[label]!.path[before]!)!.targets;
      targets.push({ label, step, token });
    });
  });
  return { labels: labels.length, first, inputs };
}

/** Adds the end token to all labels if one label is a prefix of another. */
function distinguishable(labels: readonly number[][], endToken: number | undefined): number[][] {
  const seen = new Map<string, number>();
  labels.forEach((ids, label) => {
    if (ids.length === 0) throw invalidLabels(`labels[${label}] has no tokens in this model's vocabulary`);
    const twin = seen.get(ids.join());
    if (twin !== undefined) {
      throw invalidLabels(`labels[${twin}] and labels[${label}] are the same tokens to this model`);
    }
    seen.set(ids.join(), label);
  });
  const prefixes = new PrefixTree();
  const paths = labels.map((ids) => prefixes.add(ids));
  const ambiguous = paths.some((path) => prefixes.continues(path.at(-1)!));
  if (ambiguous && endToken === undefined) {
    throw invalidLabels(
      'One label is the beginning of another, and this model has no end token to tell them apart',
    );
  }
  return labels.map((ids) => (ambiguous ? [...ids, endToken!] : [...ids]));
}

/** Numbers the prefixes of token lists. Its time grows with the tokens, not with the text of all prefixes. */
class PrefixTree {
  /** By prefix and next token: the longer prefix. The empty prefix is 0. */
  readonly #longer = new Map<number, number>();
  readonly #continued = new Set<number>();

  /** Returns the number of each prefix of the list, the shortest first. */
  add(tokens: readonly number[]): number[] {
    let prefix = 0;
    return tokens.map((token) => {
      this.#continued.add(prefix);
      const key = prefix * TOKENS + token;
      prefix = this.#longer.get(key) ?? this.#longer.size + 1;
      this.#longer.set(key, prefix);
      return prefix;
    });
  }

  /** Whether some list goes on after the prefix. */
  continues(prefix: number): boolean {
    return this.#continued.has(prefix);
  }
}

function invalidLabels(message: string): SidaError {
  return new SidaError({ code: 'invalid_request', message, param: 'labels' });
}

/** Collects the log-probabilities of one input's labels. */
export class LabelScores {
  /** (labels, steps) */
  readonly #logprobs: number[][];

  constructor(labels: number) {
    this.#logprobs = Array.from({ length: labels }, () => []);
  }

  set(target: ScoringTarget, logprob: number): void {
    this.#logprobs[target.label]![target.step] = logprob;
  }

  /** Sums each label in token order, so that the result does not depend on how rows were shared. */
  sums(): number[] {
    return this.#logprobs.map((steps) => steps.reduce((sum, logprob) => sum + logprob, 0));
  }
}
