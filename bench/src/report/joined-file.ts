/** Results of several runs as one. A run of everything takes hours, so that each measures a part, on its own commit. */
import { SWITCH_MINI } from '../scenarios/models.js';
import type { BenchFile } from './bench-file.js';

/**
 * What several runs measured, the same thing as the last of them did. Where it came from stays with the files: the
 * fields of the joined one are those of the last.
 */
export function joinedFile(files: readonly BenchFile[]): BenchFile {
  const last = files.at(-1);
  if (last === undefined) throw new Error('No result to join. This is a bug.');
  const all = <T>(list: (file: BenchFile) => readonly T[]) => files.flatMap(list);
  return {
    ...last,
    models: lastOf(
      all(({ models }) => models),
      ({ model }) => model.name,
      (before, after) => ({ ...after, data: { ...before.data, ...after.data } }),
    ),
    measurements: lastOf(
      all(({ measurements }) => measurements),
      ({ name }) => name,
    ),
    fidelity: lastOf(
      all(({ fidelity }) => fidelity),
      ({ model = SWITCH_MINI.name, data }) => `${model}/${data}`,
    ),
    dependency: lastOf(
      all(({ dependency }) => dependency),
      ({ model, data }) => `${model}/${data}`,
    ),
    gating: all(({ gating }) => (gating == null ? [] : [gating])).at(-1) ?? null,
    skipped: all(({ skipped }) => skipped),
    warnings: all(({ warnings }) => warnings),
    differing: files.flatMap(({ differing }, at) => {
      const again = new Set(
        files.slice(at + 1).flatMap(({ measurements }) => measurements.map(({ name }) => name)),
      );
      return differing.filter((name) => !again.has(name));
    }),
    comparisons: files.reduce((sum, { comparisons }) => sum + comparisons, 0),
    seconds: files.reduce((sum, { seconds }) => sum + seconds, 0),
  };
}

/** One of each key, in the order of their first: the last, or what `join` makes of it and those before. */
function lastOf<T>(
  list: readonly T[],
  keyOf: (item: T) => string,
  join = (_before: T, after: T): T => after,
): T[] {
  const found = new Map<string, T>();
  for (const item of list) {
    const key = keyOf(item);
    const before = found.get(key);
    found.set(key, before === undefined ? item : join(before, item));
  }
  return [...found.values()];
}
