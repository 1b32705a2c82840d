/** Recorded routing for a replay: the experts of every layer's turn. */

export const PHASES = ['prefill', 'decode'] as const;
export type Phase = (typeof PHASES)[number];

export interface RecordedPass {
  phase: Phase;
  tokens: number;
  /** Flat ids (layer · experts + index) that each layer's turn needs, ascending, none of them empty. */
  visits: readonly (readonly number[])[];
  /** How many times the pass's tokens chose each of them, in the order of `visits`. */
  choices: readonly (readonly number[])[];
}

/** A unit of the queue: a prompt, a step of a generation, or an input with its continuation. */
export interface RecordedBatch {
  passes: readonly RecordedPass[];
}

export interface RoutingTrace {
  /** From the file, if it names one. */
  model: string | null;
  /** MoE layers, in order. */
  layers: readonly string[];
  /** Of one layer. */
  experts: number;
  /** Bytes of one expert of each layer; (layers). */
  expertBytes: readonly number[];
  batches: readonly RecordedBatch[];
}

/** The experts of a turn as a pass has them, from how many times each was chosen. */
export function turnOf(times: ReadonlyMap<number, number>): { ids: number[]; choices: number[] } {
  const sorted = [...times].sort(([a], [b]) => a - b);
  return { ids: sorted.map(([id]) => id), choices: sorted.map(([, count]) => count) };
}
