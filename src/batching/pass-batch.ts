/** Converts the sequences of a pass into a native batch, and the native result into one answer per sequence. */
import { SidaError } from '../errors.js';
import type { NativeBatch, RunResult } from '../native/addon-types.js';
import type { RankedToken, Sampling } from '../protocol/sampling.js';

/** The tokens that a sequence adds in a pass, and the results that the pass must return for them. */
export interface PassSequence {
  job: number;
  sequence: number;
  /** Read only if the sequence is new; NO_PARENT if it has none. */
  parent: number;
  /** Tokens appended to the sequence. */
  tokens: ArrayLike<number>;
  /** Tokens to pick after the last one. */
  picks?: readonly TokenPick[];
  /** Tokens whose log-probabilities to return. `row` is an index into `tokens`, ascending. */
  queries?: readonly TokenQuery[];
}

export interface TokenPick {
  /** Null picks the most likely token. */
  sampling: Sampling | null;
  /** Position of the picked token in its sequence, which is the counter of its random number. */
  position: number;
  /** Number of most likely tokens to return with the picked one. */
  top: number;
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
}

/** Results of a pass for one sequence. */
export interface PassAnswer {
  picked: PickedToken[];
  /** Log-probabilities of the sequence's queries; NaN where the logits are not finite. */
  logprobs: Float64Array;
}

export function passBatch(stack: number, sequences: readonly PassSequence[]): NativeBatch {
  const offsets = offsetsOf(sequences.map(({ tokens }) => tokens.length));
  const tokens = new Int32Array(offsets[sequences.length]!);
  sequences.forEach((sequence, i) => {
    tokens.set(sequence.tokens, offsets[i]!);
  });
  const batch: NativeBatch = {
    stack,
    sequences: Int32Array.from(sequences, ({ sequence }) => sequence),
    parents: Int32Array.from(sequences, ({ parent }) => parent),
    offsets,
    tokens,
  };
  const picks = sequences.flatMap((sequence, i) =>
    (sequence.picks ?? []).map((pick) => ({ ...pick, row: offsets[i + 1]! - 1 })),
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
  return batch;
}

function nativePicks(picks: readonly (TokenPick & { row: number })[]): NonNullable<NativeBatch['picks']> {
  const rows = Int32Array.from(picks, ({ row }) => row);
  const top = picks.some((pick) => pick.top > 0) && Int32Array.from(picks, (pick) => pick.top);
  const greedy = { temperature: 0, topP: 1, minP: 0, topK: 0, seed: 0n };
  const sampled = picks.map(({ sampling }) => sampling ?? greedy);
  return {
    rows,
    ...(top && { top }),
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

/** Splits a native result into the answers of the sequences, in the order of the batch. */
export function passAnswers(sequences: readonly PassSequence[], result: RunResult): PassAnswer[] {
  let [pick, ranked, query] = [0, 0, 0];
  return sequences.map(({ picks = [], queries = [] }) => {
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
    return { picked, logprobs };
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

export function offsetsOf(lengths: readonly number[]): Int32Array {
  const offsets = new Int32Array(lengths.length + 1);
  lengths.forEach((length, i) => {
    offsets[i + 1] = offsets[i]! + length;
  });
  return offsets;
}
