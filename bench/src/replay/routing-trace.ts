/** Recorded routing as a replay needs it: which experts every layer's turn took. */
import type { NeedsBatch } from '../../../dist/evaluation/replay-rules.js';

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

/** What waits in the queue as one: a prompt, a step of a generation, or an input with its continuation. */
export type RecordedBatch = NeedsBatch<RecordedPass>;

export interface RoutingTrace {
  /** File or directory it was read from. */
  name: string;
  /** As the file has it, where it has one. */
  model: string | null;
  /** MoE layers, in order. */
  layers: readonly string[];
  /** Of one layer. */
  experts: number;
  /** Of one expert of each layer; (layers). */
  expertBytes: readonly number[];
  batches: readonly RecordedBatch[];
}

export interface TraceReading {
  /** Of one expert, where the trace does not tell. */
  expertBytes?: number | undefined;
  /** Bytes of the file read so far, and their number; may throw to end the reading. */
  onBytes?: (done: number, total: number) => void;
}

/** Tokens and experts needed in a phase. */
export function sizeOf(
  { batches }: RoutingTrace,
  phase: Phase,
): { tokens: number; passes: number; needs: number } {
  const size = { tokens: 0, passes: 0, needs: 0 };
  for (const pass of batches.flatMap(({ passes }) => passes)) {
    if (pass.phase !== phase) continue;
    size.passes += 1;
    size.tokens += pass.tokens;
    for (const ids of pass.visits) size.needs += ids.length;
  }
  return size;
}

/** The turns of one layer alone, its experts from 0; passes without a turn of it are left out. */
export function layerOf(trace: RoutingTrace, layer: number): RoutingTrace {
  const { experts, layers, expertBytes } = trace;
  const first = layer * experts;
  const inLayer = (ids: readonly number[]) => Math.floor(ids[0]! / experts) === layer;
  const passOf = (pass: RecordedPass): RecordedPass => ({
    ...pass,
    visits: pass.visits.filter(inLayer).map((ids) => ids.map((id) => id - first)),
    choices: pass.choices.filter((_, turn) => inLayer(pass.visits[turn]!)),
  });
  const batches = trace.batches.map(({ passes }) => ({
    passes: passes.map(passOf).filter(({ visits }) => visits.length > 0),
  }));
  return { ...trace, layers: [layers[layer]!], expertBytes: [expertBytes[layer]!], batches };
}
