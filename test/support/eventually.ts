/** Waits for something that happens soon; `what` names it where it does not. */
export async function eventually(holds: () => boolean | Promise<boolean>, what = 'it'): Promise<void> {
  const limit = performance.now() + 30_000;
  while (!(await holds())) {
    if (performance.now() > limit) throw new Error(`${what} did not happen within 30 s`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
