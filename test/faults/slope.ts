/** Growth over time: least squares, and how sure it is. */

/** `slope` of `values` over `times`, and `least`: what it is at least, with 97.5 % confidence. */
export function slopeOf(times: number[], values: number[]): { slope: number; least: number } {
  const count = times.length;
  if (count < 3) throw new Error(`a slope takes three values, not ${count}`);
  const mean = (all: number[]) => all.reduce((sum, each) => sum + each, 0) / all.length;
  const [time, value] = [mean(times), mean(values)];
  const spread = times.reduce((sum, each) => sum + (each - time) ** 2, 0);
  const slope = times.reduce((sum, each, i) => sum + (each - time) * (values[i]! - value), 0) / spread;
  const rests = values.map((each, i) => each - value - slope * (times[i]! - time));
  const variance = rests.reduce((sum, rest) => sum + rest ** 2, 0) / (count - 2);
  // Neighbours resemble each other, so the values count as fewer than they are.
  const next = rests.slice(1).reduce((sum, rest, i) => sum + rest * rests[i]!, 0);
  const likeness = Math.min(0.95, Math.max(0, next / (variance * count || 1)));
  const error = Math.sqrt((variance / spread) * ((1 + likeness) / (1 - likeness)));
  return { slope, least: slope - 2 * error };
}
