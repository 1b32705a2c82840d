/** Milliseconds of the monotonic clock, the same in every thread and process of the machine. */
export function clockMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
