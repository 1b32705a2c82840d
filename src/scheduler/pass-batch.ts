/** Converts the sequences of a pass into a native batch, and the native result into one answer per sequence. */
import { SidaError } from '../errors.js';
import type { NativeAdjustments, NativeBatch, RunResult } from '../native/addon-types.js';
import type { LayerExperts } from '../protocol/inference-messages.js';
import type { LogitAdjustments, RankedToken, Sampling } from '../protocol/sampling.js';
import { concatenated, offsetsOf } from '../ragged.js';
import type { AllowedTokens } from '../structured-output/matchers.js';

/** The tokens that a sequence adds in a pass, and the results that the pass must return for them. */
export interface PassSequence {
  job: number;
  sequence: number;
  /** Read only if the sequence is new; NO_PARENT if it has none. */
  parent: number;
  /** Tokens appended to the sequence. */
  tokens: ArrayLike<number>;
  /** Tokens to pick, by ascending rows. */
  picks?: readonly TokenPick[];
  /** Tokens whose log-probabilities to return. `row` is an index into `tokens`, ascending. */
  queries?: readonly TokenQuery[];
  /** Whether to return the hidden states of its tokens. */
  states?: boolean;
}

export interface TokenPick {
  /** Index into the sequence's tokens of the one to pick after. Default: the last. */
  row?: number;
  /** Null picks the most likely token. */
  sampling: Sampling | null;
  /** Position of the picked token in its sequence, which is the counter of its random number. */
  position: number;
  /** Number of most likely tokens to return with the picked one. */
  top: number;
  adjustments?: LogitAdjustments & {
    /** How often each token of the sequence was generated; 0 if only the prompt has it. Read before the next pass. */
    seen: TokenCounts;
  };
  /** Whether to return the experts of the row. */
  experts?: boolean | undefined;
  /** The tokens that may be picked; undefined for all. */
  allowed?: AllowedTokens | undefined;
}

/** How often the tokens of a sequence stand in it. */
export interface TokenCounts {
  ids: Int32Array;
  /** How often each token was generated; 0 if only the prompt has it. */
  times: Uint32Array;
}

export interface TokenQuery {
  row: number;
  token: number;
}

export interface PickedToken {
  /** Negative if the logits are not finite: see `tokenOf`. */
  id: number;
  logprob: number;
  /** Most likely first. */
  top: RankedToken[];
  experts?: LayerExperts[];
}

/** Results of a pass for one sequence. */
export interface PassAnswer {
  picked: PickedToken[];
  /** Log-probabilities of the sequence's queries; NaN where the logits are not finite. */
  logprobs: Float64Array;
  /** Last hidden states (tokens, width) of a sequence that asked for them. Read them before the next pass. */
  states?: Float32Array;
}

export function passBatch(stack: number, sequences: readonly PassSequence[]): NativeBatch {
  const { values: tokens, offsets } = concatenated(sequences.map((sequence) => sequence.tokens));
  const batch: NativeBatch = {
    stack,
    sequences: Int32Array.from(sequences, ({ sequence }) => sequence),
    parents: Int32Array.from(sequences, ({ parent }) => parent),
    offsets,
    tokens,
  };
  const picks = sequences.flatMap((sequence, i) =>
    (sequence.picks ?? []).map((pick) => ({
      ...pick,
      row: pick.row === undefined ? offsets[i + 1]! - 1 : offsets[i]! + pick.row,
    })),
  );
  if (picks.length > 0) batch.picks = nativePicks(picks);
  const queries = sequences.flatMap((sequence, i) =>
    (sequence.queries ?? []).map(({ row, token }) => ({ row: offsets[i]! + row, token })),
  );
  if (queries.length > 0) {
    batch.queries = {
      rows: Int32Array.from(queries, ({ row }) => row),
      tokens: Int32Array.from(queries, ({ token }) => token),
    };
  }
  if (sequences.some(({ states }) => states)) batch.hiddenStates = true;
  return batch;
}

function nativePicks(picks: readonly (TokenPick & { row: number })[]): NonNullable<NativeBatch['picks']> {
  const rows = Int32Array.from(picks, ({ row }) => row);
  const top = picks.some((pick) => pick.top > 0) && Int32Array.from(picks, (pick) => pick.top);
  const greedy = { temperature: 0, topP: 1, minP: 0, topK: 0, seed: 0n };
  const sampled = picks.map(({ sampling }) => sampling ?? greedy);
  const adjusted = picks.some(({ adjustments }) => adjustments !== undefined);
  const allowed = nativeAllowed(picks);
  return {
    rows,
    ...(top && { top }),
    ...(adjusted && { adjustments: nativeAdjustments(picks) }),
    ...(allowed && { allowed }),
    ...(picks.some(({ sampling }) => sampling !== null) && {
      sampling: {
        temperature: Float32Array.from(sampled, ({ temperature }) => temperature),
        topP: Float32Array.from(sampled, ({ topP }) => topP),
        minP: Float32Array.from(sampled, ({ minP }) => minP),
        topK: Int32Array.from(sampled, ({ topK }) => topK),
        seed: BigUint64Array.from(sampled, ({ seed }) => seed),
        position: Float64Array.from(picks, ({ position }) => position),
      },
    }),
  };
}

function nativeAdjustments(picks: readonly TokenPick[]): NativeAdjustments {
  const seen = { ids: new Int32Array(), times: new Uint32Array() };
  const none = { presence: 0, frequency: 0, repetition: 1, biases: [], seen };
  const all = picks.map(({ adjustments }) => adjustments ?? none);
  const seenEnds = endsOf(all.map((each) => each.seen.ids.length));
  const [ids, times] = [new Int32Array(seenEnds.at(-1)!), new Uint32Array(seenEnds.at(-1)!)];
  all.forEach((each, i) => {
    ids.set(each.seen.ids, seenEnds[i - 1] ?? 0);
    times.set(each.seen.times, seenEnds[i - 1] ?? 0);
  });
  const biases = all.flatMap((each) => each.biases);
  return {
    presence: Float64Array.from(all, ({ presence }) => presence),
    frequency: Float64Array.from(all, ({ frequency }) => frequency),
    repetition: Float64Array.from(all, ({ repetition }) => repetition),
    seen: ids,
    generated: times,
    seenEnds,
    biased: Int32Array.from(biases, ([id]) => id),
    biases: Float64Array.from(biases, ([, bias]) => bias),
    biasedEnds: endsOf(all.map((each) => each.biases.length)),
  };
}

/** Undefined if every pick may take any token. */
function nativeAllowed(
  picks: readonly TokenPick[],
): NonNullable<NativeBatch['picks']>['allowed'] | undefined {
  const bitmaps = picks.map(({ allowed }) => allowed?.bitmap ?? null);
  const given = bitmaps.filter((bitmap) => bitmap !== null);
  if (given.length === 0) return undefined;
  const words = given[0]!.length;
  const all = new Uint32Array(given.length * words);
  given.forEach((bitmap, row) => {
    all.set(bitmap, row * words);
  });
  let next = 0;
  return { rows: Int32Array.from(bitmaps, (bitmap) => (bitmap === null ? -1 : next++)), bitmaps: all };
}

/** Splits a native result into the answers of the sequences, in the order of the batch. */
export function passAnswers(sequences: readonly PassSequence[], result: RunResult): PassAnswer[] {
  let [pick, ranked, query, row] = [0, 0, 0, 0];
  const rows = sequences.reduce((sum, { tokens }) => sum + tokens.length, 0);
  const width = (result.hiddenStates?.length ?? 0) / rows;
  return sequences.map(({ tokens, picks = [], queries = [], states = false }) => {
    const picked = picks.map(({ top }): PickedToken => {
      const tokens = Array.from({ length: top }, (_, i) => {
        return { id: result.topIds![ranked + i]!, logprob: result.topLogprobs![ranked + i]! };
      });
      ranked += top;
      const token = { id: result.picked![pick]!, logprob: result.pickedLogprobs![pick]!, top: tokens };
      pick += 1;
      return token;
    });
    const logprobs = result.queryLogprobs?.subarray(query, query + queries.length) ?? new Float64Array(0);
    query += queries.length;
    const begin = row * width;
    row += tokens.length;
    return { picked, logprobs, ...(states && { states: result.hiddenStates!.subarray(begin, row * width) }) };
  });
}

/** Returns the id of the picked token. Throws nonfinite_output if the logits were not finite. */
export function tokenOf({ id }: PickedToken): number {
  if (id >= 0) return id;
  throw nonfinite(`The model gave a logit of token ${-1 - id} that is not finite`, { token: -1 - id });
}

export function assertFiniteLogprobs(logprobs: Float64Array): void {
  if (logprobs.some(Number.isNaN)) throw nonfinite('The model gave logits that are not finite', {});
}

function nonfinite(message: string, details: Record<string, number>): SidaError {
  return new SidaError({ code: 'nonfinite_output', message, details });
}

function endsOf(lengths: readonly number[]): Uint32Array {
  return Uint32Array.from(offsetsOf(lengths).subarray(1));
}
