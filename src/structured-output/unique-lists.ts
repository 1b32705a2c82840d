/** Lists of different constants, as EBNF. */
import { literal, type Rules } from './json-strings.js';

/** There is a rule for each set of values that are used. */
const MOST_VALUES = 8;

/** `values` are JSON. Throws an Error where there are too many, or too few for the bounds. */
export function listOfUnique(
  values: readonly string[],
  least: number,
  most: number | undefined,
  rules: Rules,
): string {
  const all = [...new Set(values)];
  if (all.length > MOST_VALUES)
    throw new Error(
      `a grammar can follow "uniqueItems" for at most ${MOST_VALUES} values, found ${all.length}`,
    );
  if (least > all.length) throw new Error(`it has only ${all.length} values for ${least} items`);
  const known = new Map<string, string>();
  const rest = (used: readonly string[]): string => {
    const key = all.filter((value) => used.includes(value)).join();
    const found = known.get(key);
    if (found !== undefined) return found;
    const ends = used.length >= least ? ['"]"'] : [];
    const open = used.length < (most ?? all.length) ? all.filter((value) => !used.includes(value)) : [];
    const comma = used.length > 0 ? '", " ' : '';
    const longer = open.map((value) => `${comma}${literal(value)} ${rest([...used, value])}`);
    const name = rules.add([...ends, ...longer].join(' | '));
    known.set(key, name);
    return name;
  };
  return `"[" ${rest([])}`;
}
