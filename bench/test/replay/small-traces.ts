import type { RecordedBatch, RoutingTrace } from '../../src/replay/routing-trace.js';

/** A generation of steps, each the experts (from 0 in each layer) that its layers need. A byte an expert. */
export function traceOf(steps: readonly (readonly (readonly number[])[])[], experts: number): RoutingTrace {
  const layers = steps[0]!.length;
  return {
    model: null,
    layers: Array.from({ length: layers }, (_, layer) => String(layer)),
    experts,
    expertBytes: new Array(layers).fill(1),
    batches: steps.map(
      (needs): RecordedBatch => ({
        passes: [
          {
            phase: 'decode',
            tokens: 1,
            visits: needs.map((ids, layer) => ids.map((id) => layer * experts + id)),
            choices: needs.map((ids) => ids.map(() => 1)),
          },
        ],
      }),
    ),
  };
}

/** One layer, one expert a step. */
export function singles(ids: readonly number[], experts: number): RoutingTrace {
  return traceOf(
    ids.map((id) => [[id]]),
    experts,
  );
}
