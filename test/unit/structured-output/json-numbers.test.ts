// The grammar of numbers within bounds, read as a regular expression.
import { expect, it } from 'vitest';
import type { Bound } from '../../../src/structured-output/json-numbers.js';
import { Rules } from '../../../src/structured-output/json-strings.js';
import { multiplesWithin } from '../../../src/structured-output/number-steps.js';

const WHOLE = [
  '0',
  '1',
  '2',
  '9',
  '10',
  '99',
  '100',
  '111',
  '112',
  '135',
  '136',
  '1207',
  '2000',
  '2025',
  '2026',
];
const NUMBERS = WHOLE.flatMap((whole) =>
  ['', '.0', '.5', '.25', '.2501', '.001', '.999', '.9999999999'].flatMap((behind) => [
    whole + behind,
    `-${whole}${behind}`,
  ]),
);
const BOUNDS = [
  -1e21,
  -112,
  -9.99,
  -0.5,
  0,
  0.001,
  0.25,
  1,
  2.5,
  99,
  112,
  135,
  999.999,
  2000,
  2025,
  2 ** 53 - 1,
];

/** Undefined if there are none. */
function expression(least: Bound, most: Bound, places: number): RegExp | undefined {
  const rules = new Rules();
  let body: string;
  try {
    body = multiplesWithin(least, most, { units: 1n, places }, rules);
  } catch {
    return undefined;
  }
  // A rule names those before it.
  const bodies = new Map<string, string>();
  const filled = (text: string) =>
    text
      .replaceAll('"."', '\\.')
      .replace(/own_\d+/g, (name) => `(?:${bodies.get(name)})`)
      .replaceAll(/[" ]/g, '');
  for (const line of rules.text.trim().split('\n')) {
    const [name, own] = line.split(' ::= ') as [string, string];
    bodies.set(name, filled(own));
  }
  return new RegExp(`^(?:${filled(body)})$`);
}

it.each([0, 2, 15])('numbers of %i places are within their bounds, and no others', (places) => {
  for (const least of [-Infinity, ...BOUNDS])
    for (const most of [...BOUNDS, Infinity])
      for (const inclusive of [true, false]) {
        const grammar = expression({ value: least, inclusive }, { value: most, inclusive }, places);
        for (const text of NUMBERS) {
          const [value, behind] = [Number(text), text.split('.')[1]?.length ?? 0];
          const within = inclusive ? least <= value && value <= most : least < value && value < most;
          const why = `${text} from ${least} to ${most}, ${inclusive}`;
          if (grammar?.test(text)) expect(within && behind <= places, why).toBe(true);
          // A zero has no sign, and a bound is written without zeros behind it.
          else if (within && behind <= places && !/^-0(\.0)?$|\..*0$/.test(text)) expect.fail(`no ${why}`);
        }
      }
});
