/** Sharpens the table of a running pass: what a layer's routers chose tells of the layers still to come. */
import type { ResidencyPlan, RoutedHook } from '../native/addon-types.js';
import { fillNeed } from '../predictor/expert-need.js';
import type { Side, TableRefiner } from '../predictor/hash-function.js';
import { NO_EXPERT } from '../predictor/hash-table.js';
import { profiled } from '../profile/thread-events.js';
import type { Foreknowledge } from './foreknowledge.js';
import type { ExpectedVisit } from './residency-planner.js';

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
  const sharpen: RoutedHook = (layer, routed) => {
    if (layer + 1 >= own.length) return null;
    const { layers, tokens, k, experts, alpha, chance } = table;
    const ofTable = new Uint16Array(tokens).fill(NO_EXPERT);
    for (let t = 0; t < routed.length; t++) ofTable[rows[t]!] = routed[t]!;
    refiner.refine(side, layer, ofTable, layers, tokens, k, experts, alpha, chance);
    fillNeed(table, layer + 1);
    const visits = own.map((visit, at) => (at > layer ? visit : settled(visit, at === layer ? routed : [])));
    return plan({ ...known, own: visits });
  };
  return (layer, routed) => profiled('refine', () => sharpen(layer, routed));
}

/**
 * A visit whose layer needs just the `routed` experts: no prefetch may take the place of one, and those that nobody had
 * foreseen are fetched on demand. The table keeps what it foretold, for it may speak of other passes too.
 */
function settled({ firstId, need: foretold }: ExpectedVisit, routed: Iterable<number>): ExpectedVisit {
  const need = new Float32Array(foretold.length);
  const prefetch = new Float32Array(foretold.length);
  for (const expert of routed) {
    if (expert === NO_EXPERT) continue;
    need[expert] = 1;
    prefetch[expert] = foretold[expert]!;
  }
  return { firstId, need, prefetch };
}
