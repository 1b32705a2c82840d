/** Sharpens the table of a running pass: what a layer's routers chose tells of the layers still to come. */
import type { ResidencyPlan, RoutedHook } from '../native/addon-types.js';
import { fillNeed } from '../predictor/expert-need.js';
import type { Side, TableRefiner } from '../predictor/hash-function.js';
import { NO_EXPERT } from '../predictor/hash-table.js';
import type { Foreknowledge } from './foreknowledge.js';

/** Undefined where there is nothing to sharpen. `plan` is asked anew after each layer but the last. */
export function refinement(
  refiner: TableRefiner | null,
  side: Side,
  known: Foreknowledge,
  plan: (known: Foreknowledge) => ResidencyPlan | null,
): RoutedHook | undefined {
  const { own, predicted, routingK } = known;
  if (refiner === null || predicted === null || routingK > 0 || own.length < 2) return undefined;
  const { table, rows } = predicted;
  return (layer, routed) => {
    if (layer + 1 >= own.length) return null;
    const { layers, tokens, k, experts, alpha, chance } = table;
    const ofTable = new Uint16Array(tokens).fill(NO_EXPERT);
    for (let t = 0; t < routed.length; t++) ofTable[rows[t]!] = routed[t]!;
    refiner.refine(side, layer, ofTable, layers, tokens, k, experts, alpha, chance);
    fillNeed(table, layer + 1);
    // The layer's own needs are certain now: no new prefetch may take the place of one.
    const { need } = own[layer]!;
    need.fill(0);
    for (const expert of routed) if (expert !== NO_EXPERT) need[expert] = 1;
    return plan(known);
  };
}
