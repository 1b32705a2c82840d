// What the check of a schema takes: it runs on the event loop of the server, before a request is admitted.
import { describe, expect, it } from 'vitest';
import type { SidaError } from '../../../src/errors.js';
import { hasIntegers, hasNumbers, numberRange } from '../../../src/structure/number-rules.js';
import { patternRule } from '../../../src/structure/pattern-rules.js';
import { checkedSchema } from '../../../src/structure/schema-check.js';
import { SCHEMA_LIMITS } from '../../../src/structure/schema-limits.js';
import { structureOf } from '../../../src/tasks/shared/structure.js';
import { callsOf } from '../../support/counted-calls.js';
import { alternatives, DEAR_SCHEMAS, dots } from '../../support/dear-schemas.js';

const listOf = <T>(count: number, of: (at: number) => T) => Array.from({ length: count }, (_, at) => of(at));

function errorOf(run: () => unknown): SidaError {
  try {
    run();
  } catch (error) {
    return error as SidaError;
  }
  throw new Error('It was accepted');
}

/** How often the check looks into a set, adds to one, and reads or writes JSON. */
function stepsOf(schema: unknown): number {
  const counted: [object, string][] = [
    [Set.prototype, 'has'],
    [Set.prototype, 'add'],
    [JSON, 'stringify'],
    [JSON, 'parse'],
  ];
  return callsOf(counted, () => {
    try {
      checkedSchema(schema, 'response_format');
    } catch {
      // Refusals count, too.
    }
  });
}

describe('the check of a schema', () => {
  it('compares one list of many alternatives', () => {
    expect(() => checkedSchema(alternatives(1), 'response_format')).not.toThrow();
  });

  it('refuses more comparisons than its limit, and makes no more than that', () => {
    const schema = alternatives(29);
    const { code, message } = errorOf(() => checkedSchema(schema, 'response_format'));
    expect(code).toBe('invalid_request');
    expect(message).toContain(`${SCHEMA_LIMITS.comparisons} comparisons`);
    expect(stepsOf(schema)).toBeLessThan(SCHEMA_LIMITS.comparisons + 100_000);
  });

  it.each(DEAR_SCHEMAS.slice(1))('takes time in proportion to %s', (_, schema) => {
    expect(stepsOf(schema)).toBeLessThan(50_000);
  });

  it.each(DEAR_SCHEMAS.slice(1))('tells whether a request may have %s', (_, schema, allowed) => {
    if (allowed) checkedSchema(schema, 'response_format');
    else expect(() => checkedSchema(schema, 'response_format')).toThrow();
  });

  it('refuses more types than there are, with both numbers', () => {
    const schema = { type: listOf(8, () => 'null'), enum: [null] };
    expect(errorOf(() => checkedSchema(schema, 'response_format')).message).toMatch(/8 types .* 7/);
  });
});

describe('patterns', () => {
  it('are refused above their limit, with both numbers', () => {
    expect(() => checkedSchema(dots(SCHEMA_LIMITS.patternCharacters), 'response_format')).not.toThrow();
    const { message } = errorOf(() => checkedSchema(dots(100_000), 'response_format'));
    expect(message).toMatch(new RegExp(`100000 characters.*${SCHEMA_LIMITS.patternCharacters}`));
  });

  it('of all tools of a request count together', () => {
    const tools = listOf(3, (at) => ({
      tool: {
        type: 'function' as const,
        function: { name: `f${at}`, parameters: { type: 'object', properties: { a: dots(3_000) } } },
      },
      field: `tools.${at}.function`,
    }));
    const demand = (count: number) =>
      structureOf({ content: undefined, choice: 'required', tools: tools.slice(0, count), calls: true });
    expect(demand(2)!.calls).toHaveLength(2);
    const { param, message } = errorOf(() => demand(3));
    expect(param).toBe('tools.2.function.parameters');
    expect(message).toContain('9000 characters');
  });

  it('have each of their classes built once', () => {
    const counted: [object, string][] = [[Array.prototype, 'toSorted']];
    expect(callsOf(counted, () => void patternRule('.[a-c]\\d'.repeat(1_000)))).toBeLessThan(100);
  });
});

describe('bounds of numbers', () => {
  const BOUNDS = [undefined, -2, -1, 0, 1, 2];
  const NUMBERS = listOf(17, (at) => at / 2 - 4);

  it('leave a number where there is one within them', () => {
    for (const minimum of BOUNDS)
      for (const maximum of BOUNDS)
        for (const exclusiveMinimum of BOUNDS)
          for (const exclusiveMaximum of BOUNDS) {
            const given = { minimum, maximum, exclusiveMinimum, exclusiveMaximum };
            const within = NUMBERS.filter(
              (number) =>
                !(number < minimum! || number > maximum!) &&
                !(number <= exclusiveMinimum! || number >= exclusiveMaximum!),
            );
            expect(hasNumbers(given), JSON.stringify(given)).toBe(within.length > 0);
            expect(hasIntegers(given), JSON.stringify(given)).toBe(within.some(Number.isInteger));
            expect(numberRange(given) !== undefined, JSON.stringify(given)).toBe(within.length > 0);
          }
  });
});
