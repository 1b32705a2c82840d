/** Reads the experts of a token from a pass. */

import type { PassForecast } from '../forecast/pass-forecast.js';
import { NO_EXPERT, type RunResult } from '../native/addon-types.js';
import type { LayerExperts } from '../protocol/inference-messages.js';

/** `row` is that of the token among the pass's `tokens`, and `names` those of all MoE layers. */
export function tokenExperts(
  { dispatch, layers }: Pick<RunResult, 'dispatch' | 'layers'>,
  { row, tokens }: { row: number; tokens: number },
  { predicted }: Pick<PassForecast, 'predicted'>,
  names: readonly string[],
): LayerExperts[] {
  const k = dispatch.length / (layers.length * tokens);
  return Array.from(layers, (flat, layer) => {
    const at = (layer * tokens + row) * k;
    return {
      layer: names[flat]!,
      chosen: known(dispatch.subarray(at, at + k)),
      predicted: predictedExperts(predicted, layer, row, k),
    };
  });
}

/** As many as the routers choose. Null where no table describes the token. */
function predictedExperts(
  predicted: PassForecast['predicted'],
  layer: number,
  row: number,
  k: number,
): number[] | null {
  if (predicted === null) return null;
  const { table, rows } = predicted;
  const at = (layer * table.tokens + rows[row]!) * table.k;
  const experts = known(table.experts.subarray(at, at + Math.min(k, table.k)));
  return experts.length === 0 ? null : experts;
}

const known = (experts: Uint16Array) => [...experts].filter((expert) => expert !== NO_EXPERT);
