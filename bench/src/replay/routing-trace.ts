/** Recorded routing for a replay: the experts of every layer's turn. */
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

/** A unit of the queue: a prompt, a step of a generation, or an input with its continuation. */
export type RecordedBatch = NeedsBatch<RecordedPass>;

export interface RoutingTrace {
  /** File or directory it was read from. */
  name: string;
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

export interface TraceReading {
  /** Bytes of one expert, if the trace does not say. */
  expertBytes?: number | undefined;
  /** Called with the bytes read and the size of the file. It may throw to stop reading. */
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
