/**
 * Counts how often methods of JavaScript's own objects are called while `run` runs. No mock of the test runner can: it
 * uses such methods itself.
 */
type Method = (...given: unknown[]) => unknown;

export function callsOf(methods: readonly [owner: object, name: string][], run: () => void): number {
  let calls = 0;
  const restore = methods.map(([object, name]) => {
    const owner = object as Record<string, Method>;
    const own = owner[name]!;
    owner[name] = function (this: unknown, ...given: unknown[]) {
      calls += 1;
      return own.apply(this, given);
    };
    return () => {
      owner[name] = own;
    };
  });
  try {
    run();
  } finally {
    for (const each of restore) each();
  }
  return calls;
}
