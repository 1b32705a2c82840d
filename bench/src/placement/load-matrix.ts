/** What the batches of a recorded trace load each expert of a layer with. */
import { SidaError } from '../../../dist/errors.js';
import type { RecordedBatch, RoutingTrace } from '../replay/routing-trace.js';

/**
 * (batches, experts of a layer): share of a batch's choices that an expert got, A_mb of "Towards MoE Deployment"
 * (section VII). A token that goes to k experts makes k choices; a row adds up to 1.
 */
export type LoadMatrix = readonly Float64Array[];

/**
 * Consecutive turns of a layer, joined until they hold `batchTokens` tokens. An incomplete last batch is dropped.
 * Throws invalid_request if no batch is complete.
 */
export function loadMatrix(
  { layers, experts }: Pick<RoutingTrace, 'layers' | 'experts'>,
  batches: readonly RecordedBatch[],
  layer: number,
  batchTokens: number,
): LoadMatrix {
  const rows: Float64Array[] = [];
  let counts = new Float64Array(experts);
  let tokens = 0;
  let seen = 0;
  for (const pass of batches.flatMap(({ passes }) => passes)) {
    pass.visits.forEach((ids, turn) => {
      if (Math.floor(ids[0]! / experts) !== layer) return;
      for (const [i, id] of ids.entries()) counts[id % experts]! += pass.choices[turn]![i]!;
      tokens += pass.tokens;
      seen += pass.tokens;
      if (tokens < batchTokens) return;
      rows.push(shares(counts));
      counts = new Float64Array(experts);
      tokens = 0;
    });
  }
  if (rows.length > 0) return rows;
  throw new SidaError({
    code: 'invalid_request',
    message: `Layer ${layers[layer]} has ${seen} tokens in one part of the trace, a batch has ${batchTokens}`,
  });
}

function shares(counts: Float64Array): Float64Array {
  const all = counts.reduce((sum, count) => sum + count, 0);
  return counts.map((count) => count / all);
}
