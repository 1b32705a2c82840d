export const SCHEDULES = ['constant', 'cosine'] as const;
type Schedule = (typeof SCHEDULES)[number];

/**
 * Learning rate of a step. `step` counts from 0; `progress` is the fraction of the whole run that is done, 0 to 1.
 * The rate rises linearly over `warmup` steps. It then stays constant or falls to 0 along half a cosine.
 */
export function learningRateAt(
  { lr, schedule, warmup }: { lr: number; schedule: Schedule; warmup: number },
  step: number,
  progress: number,
): number {
  const rise = warmup > 0 ? Math.min(1, (step + 1) / warmup) : 1;
  const fall = schedule === 'cosine' ? 0.5 * (1 + Math.cos(Math.PI * Math.min(1, progress))) : 1;
  return lr * rise * fall;
}
