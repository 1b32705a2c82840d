/** Waits until `holds` returns true. Throws an Error that names `what` after `limitMs` milliseconds. */
export async function eventually(
  holds: () => boolean | Promise<boolean>,
  what = 'it',
  limitMs = 30_000,
): Promise<void> {
  const limit = performance.now() + limitMs;
  while (!(await holds())) {
    if (performance.now() > limit) throw new Error(`${what} did not happen within ${limitMs / 1000} s`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
