export const SCHEDULES = ['constant', 'cosine', 'plateau'] as const;
type Schedule = (typeof SCHEDULES)[number];

/** What the learning rate of the `plateau` schedule is multiplied by at each plateau. */
const FALL = 0.1;

/** How far a run has come. */
export interface RunPosition {
  /** Steps done. */
  step: number;
  /** Fraction of the whole run that is done, 0 to 1. */
  progress: number;
  /** Plateaus of the held-out loss so far. */
  falls: number;
}

/**
 * Learning rate of the next step. The rate rises linearly over `warmup` steps. It then stays constant, falls to 0 along
 * half a cosine, or falls to a tenth at each plateau.
 */
export function learningRateAt(
  { lr, schedule, warmup }: { lr: number; schedule: Schedule; warmup: number },
  { step, progress, falls }: RunPosition,
): number {
  const rise = warmup > 0 ? Math.min(1, (step + 1) / warmup) : 1;
  if (schedule === 'cosine') return lr * rise * 0.5 * (1 + Math.cos(Math.PI * Math.min(1, progress)));
  return schedule === 'plateau' ? lr * rise * FALL ** falls : lr * rise;
}
