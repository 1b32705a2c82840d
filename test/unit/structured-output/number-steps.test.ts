import { describe, expect, it } from 'vitest';
import type { Bound } from '../../../src/structured-output/json-numbers.js';
import { Rules } from '../../../src/structured-output/json-strings.js';
import { multiplesWithin, stepOf } from '../../../src/structured-output/number-steps.js';

/** Whether the rules allow a text: their bodies are alternatives of literals and names. */
function allows(body: string, rules: ReadonlyMap<string, string>, text: string): boolean {
  return body.split(' | ').some((alternative) => {
    const step = (parts: string[], rest: string): boolean => {
      const [part, ...others] = parts;
      if (part === undefined) return rest === '';
      const span = /^\[(.)-(.)\]$/.exec(part);
      if (span !== null) return span[1]! <= rest[0]! && rest[0]! <= span[2]! && step(others, rest.slice(1));
      if (!part.startsWith('"')) return others.length === 0 && allows(rules.get(part)!, rules, rest);
      const literal = part.slice(1, -1);
      return rest.startsWith(literal) && step(others, rest.slice(literal.length));
    };
    return step(alternative.split(' '), text);
  });
}

describe('multiples of a number', () => {
  const free: Bound = { value: Number.POSITIVE_INFINITY, inclusive: true };
  it.each<[number, boolean, number, number]>([
    [7, true, -50, 50],
    [0.5, false, -3, 3.5],
    [0.25, false, 0.3, 2],
    [1.5, true, -10, 10],
    [20, true, 0, 500],
    [0.3, false, -1, 1],
  ])('of %d, whole: %s, from %d to %d are all and no others', (step, whole, least, most) => {
    const rules = new Rules();
    const bounds = [least, most].map((value) => ({ value, inclusive: true })) as [Bound, Bound];
    const body = multiplesWithin(...bounds, stepOf(step, whole)!, rules);
    const named = new Map(
      rules.text
        .trim()
        .split('\n')
        .map((line) => line.split(' ::= ') as [string, string]),
    );
    for (let hundredths = -6000; hundredths <= 60_000; hundredths += whole ? 100 : 5) {
      const value = hundredths / 100;
      const parts = Math.abs(hundredths * 10_000) % Math.round(step * 1_000_000) === 0;
      const right = parts && value >= least && value <= most;
      if (value !== 0) expect([value, allows(body, named, String(value))]).toEqual([value, right]);
    }
  });

  it('of a power of ten take few rules', () => {
    const rules = new Rules();
    multiplesWithin({ value: 0, inclusive: true }, free, stepOf(100_000, true)!, rules);
    expect(rules.text.split('\n').length).toBeLessThan(100);
  });
});
