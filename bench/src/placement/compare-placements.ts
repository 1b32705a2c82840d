/** Places the experts of a trace's layers by its first part and measures the placements on the rest. */
import { SidaError } from '../../../dist/errors.js';
import type { RoutingTrace } from '../replay/routing-trace.js';
import { type LoadMatrix, loadMatrix } from './load-matrix.js';
import { type Placement, placeAntiCorrelated, placeByIndex, placeGreedily } from './place-experts.js';

/** Shares of a batch; both lie between 1 / devices and 1. "Towards MoE Deployment", section VII A. */
export interface DeviceLoad {
  /** The largest share that any device gets of any batch: the batch that may run a device out of memory. */
  maxLoad: number;
  /**
   * The largest share that a device gets of a batch, averaged over the batches: the device that all others wait for.
   */
  averageMaxLoad: number;
}

export function deviceLoad(placement: Placement, devices: number, batches: LoadMatrix): DeviceLoad {
  let [maxLoad, sum] = [0, 0];
  for (const batch of batches) {
    const loads = new Float64Array(devices);
    for (const [expert, share] of batch.entries()) loads[placement[expert]!]! += share;
    const largest = Math.max(...loads);
    maxLoad = Math.max(maxLoad, largest);
    sum += largest;
  }
  return { maxLoad, averageMaxLoad: sum / batches.length };
}

const STRATEGIES = ['index', 'greedy', 'anti-correlation'] as const;
type Strategy = (typeof STRATEGIES)[number];

interface PlacementOptions {
  /** Numbers of devices. */
  devices: readonly number[];
  /** Share of the batches, from the first, that placements learn from. */
  learn: number;
  /** Tokens of a batch: turns of a layer are joined until they hold this many. */
  batchTokens: number;
}

interface StrategyLoad {
  devices: number;
  strategy: Strategy;
  /** The value of the layer where it is largest. */
  maxLoad: number;
  /** Mean of the layers. */
  averageMaxLoad: number;
}

export interface PlacementReport {
  layers: number;
  /** Of one layer. */
  experts: number;
  batchTokens: number;
  /** Recorded batches in the part that is learned from, and in the measured one. */
  learned: number;
  measured: number;
  /** Fewest and most batches that a layer is measured on, after they are joined. */
  joined: { least: number; most: number };
  strategies: StrategyLoad[];
}

interface Layer {
  history: LoadMatrix;
  measured: LoadMatrix;
}

/** Throws invalid_request where a part has no batch, or a layer fewer experts than devices. */
export function comparePlacements(
  trace: RoutingTrace,
  { devices, learn, batchTokens }: PlacementOptions,
): PlacementReport {
  const { batches, experts } = trace;
  const most = Math.max(...devices);
  if (most > experts) {
    const message = `${most} devices cannot share the ${experts} experts of a layer: each holds one at least`;
    throw new SidaError({ code: 'invalid_request', message });
  }
  const learned = Math.ceil(learn * batches.length);
  const layers = trace.layers.map((_, layer): Layer => {
    const matrix = (part: typeof batches) => loadMatrix(trace, part, layer, batchTokens);
    return { history: matrix(batches.slice(0, learned)), measured: matrix(batches.slice(learned)) };
  });
  const counts = layers.map(({ measured }) => measured.length);
  return {
    layers: layers.length,
    experts,
    batchTokens,
    learned,
    measured: batches.length - learned,
    joined: { least: Math.min(...counts), most: Math.max(...counts) },
    strategies: devices.flatMap((count) => STRATEGIES.map((strategy) => summary(strategy, count, layers))),
  };
}

function summary(strategy: Strategy, devices: number, layers: readonly Layer[]): StrategyLoad {
  const loads = layers.map((layer) => loadOf(strategy, devices, layer));
  const mean = (of: (load: DeviceLoad) => number) =>
    loads.reduce((sum, load) => sum + of(load), 0) / loads.length;
  return {
    devices,
    strategy,
    maxLoad: Math.max(...loads.map(({ maxLoad }) => maxLoad)),
    averageMaxLoad: mean(({ averageMaxLoad }) => averageMaxLoad),
  };
}

function loadOf(strategy: Strategy, devices: number, { history, measured }: Layer): DeviceLoad {
  const load = (placement: Placement) => deviceLoad(placement, devices, measured);
  switch (strategy) {
    case 'index':
      return load(placeByIndex(measured[0]!.length, devices));
    case 'greedy':
      return load(placeGreedily(history, devices));
    case 'anti-correlation':
      return load(placeAntiCorrelated(history, devices));
  }
}
