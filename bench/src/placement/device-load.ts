import type { LoadMatrix } from './load-matrix.js';
import type { Placement } from './place-experts.js';

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
