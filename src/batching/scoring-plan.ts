/**
 * Scores labels as continuations: score(label) = Σ log p(token | tokens before it) under teacher forcing. Labels
 * share rows wherever their prefixes agree, so single-token labels together need at most one fed token.
 */
import { SidaError } from '../errors.js';
import type { ScoringPlan, ScoringRow, ScoringTarget } from '../protocol/item-work.js';

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
  const fedTokens = complete.map((ids) => [...start, ...ids.slice(0, -1)]);
  const beginnings = properPrefixes(fedTokens);
  const first: ScoringTarget[] = [];
  const inputs: ScoringPlan['inputs'] = [];
  /** By prefix: the row that predicts the next token. */
  const rowOf = new Map<string, ScoringRow>();
  const seen = new Set<string>();
  for (const tokens of fedTokens) {
    const key = tokens.join();
    if (tokens.length === 0 || beginnings.has(key) || seen.has(key)) continue;
    seen.add(key);
    const rows: ScoringRow[] = [];
    for (let position = 0; position < tokens.length; position++) {
      const prefix = tokens.slice(0, position + 1).join();
      if (rowOf.has(prefix)) continue;
      const row: ScoringRow = { position, targets: [] };
      rowOf.set(prefix, row);
      rows.push(row);
    }
    inputs.push({ tokens, rows });
  }
  complete.forEach((ids, label) => {
    ids.forEach((token, step) => {
      const fed = start.length + step;
      const targets = fed === 0 ? first : rowOf.get(fedTokens[label]!.slice(0, fed).join())!.targets;
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
  const beginnings = properPrefixes(labels);
  const ambiguous = labels.some((ids) => beginnings.has(ids.join()));
  if (ambiguous && endToken === undefined) {
    throw invalidLabels(
      'One label is the beginning of another, and this model has no end token to tell them apart',
    );
  }
  return labels.map((ids) => (ambiguous ? [...ids, endToken!] : [...ids]));
}

function properPrefixes(lists: readonly number[][]): Set<string> {
  const prefixes = new Set<string>();
  for (const ids of lists) {
    for (let length = 1; length < ids.length; length++) prefixes.add(ids.slice(0, length).join());
  }
  return prefixes;
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
