/**
 * Scores labels as continuations: score(label) = Σ log p(token | tokens before it) under teacher forcing. Labels
 * share rows wherever their prefixes agree, so single-token labels together need at most one fed token.
 */
import { SidaError } from '../errors.js';
import type { ScoringPlan, ScoringRow, ScoringTarget } from '../protocol/item-work.js';

/**
 * `labels` are token ids without special tokens. If `startToken` is null, labels continue the prompt. Throws
 * invalid_request if two labels cannot be distinguished. `check` gets the inputs before they have rows, which take most
 * of the time; it may throw.
 */
export function planScoring(
  labels: readonly number[][],
  startToken: number | null,
  endToken: number | undefined,
  check: (inputs: ScoringPlan['inputs']) => void = () => undefined,
): ScoringPlan {
  const prefixes = new LabelPrefixes();
  const paths = pathsOf(labels, prefixes);
  const ambiguous = paths.some((path) => prefixes.continues(path.at(-1)!));
  if (ambiguous && endToken === undefined) {
    throw invalidLabels(
      'One label is the beginning of another, and this model has no end token to tell them apart',
    );
  }
  // If one label is a prefix of another, the end token counts for all.
  const complete = ambiguous ? labels.map((ids) => [...ids, endToken!]) : labels;
  const [start, before] = startToken === null ? [[], []] : [[startToken], [EMPTY]];
  const fed = complete.map((ids, label) => ({
    tokens: [...start, ...ids.slice(0, -1)],
    path: [...before, ...paths[label]!.slice(0, ids.length - 1)],
  }));
  const longer = new Uint8Array(prefixes.count);
  for (const { path } of fed) for (let at = 0; at + 1 < path.length; at += 1) longer[path[at]!] = 1;
  const seen = new Set<number>();
  const last = fed.filter(({ path }) => {
    const end = path.at(-1);
    if (end === undefined || longer[end] === 1 || seen.has(end)) return false;
    seen.add(end);
    return true;
  });
  const inputs = last.map(({ tokens }): ScoringPlan['inputs'][number] => ({ tokens, rows: [] }));
  check(inputs);
  const first: ScoringTarget[] = [];
  /** By prefix: the row that predicts the next token. */
  const rowOf = new Array<ScoringRow | undefined>(prefixes.count);
  for (const [input, { path }] of last.entries()) {
    for (const [position, prefix] of path.entries()) {
      if (rowOf[prefix] !== undefined) continue;
      const row: ScoringRow = { position, targets: [] };
      rowOf[prefix] = row;
      inputs[input]!.rows.push(row);
    }
  }
  complete.forEach((ids, label) => {
    ids.forEach((token, step) => {
      const before = start.length + step - 1;
      const targets = before < 0 ? first : rowOf[fed[label]!.path[before]!]!.targets;
      targets.push({ label, step, token });
    });
  });
  return { labels: labels.length, first, inputs };
}

/** The prefixes of each label, the shortest first. Throws if a label is empty or stands there twice. */
function pathsOf(labels: readonly number[][], prefixes: LabelPrefixes): number[][] {
  const owners = new Map<number, number>();
  return labels.map((ids, label) => {
    if (ids.length === 0) throw invalidLabels(`labels[${label}] has no tokens in this model's vocabulary`);
    const path = prefixes.add(ids);
    const twin = owners.get(path.at(-1)!);
    if (twin !== undefined) {
      throw invalidLabels(`labels[${twin}] and labels[${label}] are the same tokens to this model`);
    }
    owners.set(path.at(-1)!, label);
    return path;
  });
}

/** Number of the prefix without tokens. */
const EMPTY = 0;
const NONE = -1;

/**
 * Numbers the prefixes of token lists. Few prefixes continue in more than one way, so only the second and later ways
 * are in maps: the tree of 65,536 tokens takes a millisecond or two.
 */
class LabelPrefixes {
  /** By prefix: the token that was the first to follow it, or NONE, and the longer prefix. */
  readonly #token = [NONE];
  readonly #longer = [NONE];
  readonly #others = new Map<number, Map<number, number>>();

  get count(): number {
    return this.#token.length;
  }

  /** Returns the number of each prefix of the list but the empty one, the shortest first. */
  add(tokens: readonly number[]): number[] {
    let prefix = EMPTY;
    return tokens.map((token) => {
      prefix = this.#next(prefix, token);
      return prefix;
    });
  }

  /** Whether some list goes on after the prefix. */
  continues(prefix: number): boolean {
    return this.#token[prefix] !== NONE;
  }

  #next(prefix: number, token: number): number {
    if (this.#token[prefix] === token) return this.#longer[prefix]!;
    if (this.#token[prefix] === NONE) {
      this.#token[prefix] = token;
      this.#longer[prefix] = this.#new();
      return this.#longer[prefix]!;
    }
    const others = this.#others.get(prefix) ?? new Map<number, number>();
    this.#others.set(prefix, others);
    const longer = others.get(token) ?? this.#new();
    others.set(token, longer);
    return longer;
  }

  #new(): number {
    this.#longer.push(NONE);
    return this.#token.push(NONE) - 1;
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
