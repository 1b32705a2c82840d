/**
 * Scores labels as continuations: score(label) = Σ log p(token | tokens before it) under teacher forcing. Labels
 * share rows wherever their prefixes agree, so single-token labels together need at most one fed token.
 */
import { SidaError } from '../errors.js';
import type { ScoringPlan, ScoringRow, ScoringTarget } from '../protocol/item-work.js';
import { assertFiniteLogprobs, type TokenQuery } from './pass-batch.js';

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
  const start = startToken === null ? [] : [startToken];
  const fed = fedSequences(complete, paths, start);
  const longest = longestOnly(fed, prefixes.count);
  const inputs = longest.map(({ tokens }): ScoringPlan['inputs'][number] => ({ tokens, rows: [] }));
  check(inputs);
  const rowOf = rowsOf(longest, inputs, prefixes.count);
  const first: ScoringTarget[] = [];
  complete.forEach((ids, label) => {
    ids.forEach((token, step) => {
      const before = start.length + step - 1;
      const targets = before < 0 ? first : rowOf[fed[label]!.path[before]!]!.targets;
      targets.push({ label, step, token });
    });
  });
  return { labels: labels.length, first, inputs };
}

/** What is fed for a label, and the prefix that each of its tokens ends. */
interface FedSequence {
  tokens: number[];
  path: number[];
}

/** The start token, if there is one, and each label without its last token. */
function fedSequences(
  complete: readonly number[][],
  paths: readonly number[][],
  start: readonly number[],
): FedSequence[] {
  const before = start.map(() => EMPTY);
  return complete.map((ids, label) => ({
    tokens: [...start, ...ids.slice(0, -1)],
    path: [...before, ...paths[label]!.slice(0, ids.length - 1)],
  }));
}

/** Without those that another one begins with, or that stand there twice. */
function longestOnly(fed: readonly FedSequence[], prefixes: number): FedSequence[] {
  const longer = new Uint8Array(prefixes);
  for (const { path } of fed) for (let at = 0; at + 1 < path.length; at += 1) longer[path[at]!] = 1;
  const seen = new Set<number>();
  return fed.filter(({ path }) => {
    const end = path.at(-1);
    if (end === undefined || longer[end] === 1 || seen.has(end)) return false;
    seen.add(end);
    return true;
  });
}

/** Adds the rows to their inputs, and returns by prefix the row that predicts the next token. */
function rowsOf(
  fed: readonly FedSequence[],
  inputs: ScoringPlan['inputs'],
  prefixes: number,
): (ScoringRow | undefined)[] {
  const rowOf = new Array<ScoringRow | undefined>(prefixes);
  for (const [input, { path }] of fed.entries()) {
    for (const [position, prefix] of path.entries()) {
      if (rowOf[prefix] !== undefined) continue;
      const row: ScoringRow = { position, targets: [] };
      rowOf[prefix] = row;
      inputs[input]!.rows.push(row);
    }
  }
  return rowOf;
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

function invalidLabels(message: string): SidaError {
  return new SidaError({ code: 'invalid_request', message, param: 'labels' });
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

export class LabelScoring {
  readonly plan: ScoringPlan;
  readonly #scores: LabelScores;

  constructor(plan: ScoringPlan) {
    this.plan = plan;
    this.#scores = new LabelScores(plan.labels);
  }

  /** Takes the log-probabilities of `targets`, in order. Throws nonfinite_output. */
  take(targets: readonly ScoringTarget[], logprobs: Float64Array): void {
    assertFiniteLogprobs(logprobs);
    targets.forEach((target, i) => {
      this.#scores.set(target, logprobs[i]!);
    });
  }

  /** Summed log-probability of each label. Call it once all targets have been taken. */
  sums(): number[] {
    return this.#scores.sums();
  }
}

/** Selects the targets within the tokens [begin, begin + count) of a plan's input. Query rows count from `begin`. */
export function targetsWithin(
  { rows }: ScoringPlan['inputs'][number],
  begin: number,
  count: number,
): { targets: ScoringTarget[]; queries: TokenQuery[] } {
  const within = rows.filter(({ position }) => position >= begin && position < begin + count);
  const targets = within.flatMap((row) => row.targets);
  const queries = within.flatMap(({ position, targets: asked }) =>
    asked.map(({ token }) => ({ row: position - begin, token })),
  );
  return { targets, queries };
}
