/** Whether passing jobs on between workers can pay at all. */
import type { MemoryPlan } from '../native/addon-types.js';
import type { DeviceUsage } from '../native/engine-types.js';
import type { Placement } from './choose-worker.js';

/**
 * A request needs a part of the experts, and choosing a worker saves a part of what is missing of those (a fifth, where it does
 * well: docs/benchmarks.md). To ask and to pass on takes milliseconds. So it cannot pay where to load everything that has
 * no slot takes less than this.
 */
const WORTH_MS = 100;

/** `linkBandwidth`: of a simulated link, bytes a second; 0: none. */
export function resolvePlacement(
  placement: Placement,
  plan: Pick<MemoryPlan, 'slot' | 'experts'>,
  { slots, disk }: Pick<DeviceUsage, 'slots' | 'disk'>,
  linkBandwidth: number,
): Exclude<Placement, 'auto'> {
  if (placement !== 'auto') return placement;
  const missingBytes = plan.slot * Math.max(0, plan.experts - slots);
  const rates = disk.map(({ bytesPerSecond }) => bytesPerSecond);
  const diskMs = rates.includes(0) ? Infinity : 1000 / rates.reduce((sum, rate) => sum + rate, 0);
  const linkMs = linkBandwidth === 0 ? 0 : 1000 / linkBandwidth;
  return missingBytes > 0 && missingBytes * Math.max(diskMs, linkMs) >= WORTH_MS ? 'experts' : 'any';
}
