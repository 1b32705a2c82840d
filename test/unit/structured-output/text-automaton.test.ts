// Automata of patterns match the texts that JavaScript's own expressions match.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { automatonOf, isWithin } from '../../../src/structured-output/text-automaton.js';

function matches(states: ReturnType<typeof automatonOf>, text: string): boolean {
  let at: number | undefined = 0;
  for (const character of text) {
    const code = character.codePointAt(0)!;
    at = states[at]!.next.find(({ ranges }) => isWithin(code, ranges))?.state;
    if (at === undefined) return false;
  }
  return states[at]!.ends;
}

const PATTERNS = [
  ...['ab', '^ab', 'ab$', '^ab$', '^$', '', '(^a|b)b', 'a(b$|c)', '^a*^b', 'a|^b|c$', '(a?b){2,3}c'],
  ...[
    '^(?=.*b)(?!.*bb)[ab]+$',
    '^(?!(?:a|ab)$)',
    '(?=a)[ab]b',
    'a(?!b)',
    '^(a(?!b)){1,3}',
    '^(?:a|b(?=c))*c?$',
  ],
  ...[
    '[^a]c',
    '\\w\\s?\\d',
    '.b',
    '^(a|b)?(?:c|$)',
    '^(?!^[-+.]*$)[+-]?a*',
    'a{0}b',
    '(?:)c',
    '^((a|b)(?=b))?b',
  ],
  ...['\\p{L}b', '[\\u{1f600}-\\u{1f64f}]', '^[^]{2,3}$', '^(?:a{1,2}b?){2}$'],
];
// biome-ignore format: a list of characters
const text = fc.array(fc.constantFrom('a', 'a', 'b', 'b', 'c', ' ', '1', '-', '\n', 'é', '😀'), { maxLength: 7 });

it.each(PATTERNS)('of %j', (pattern) => {
  let states: ReturnType<typeof automatonOf>;
  try {
    states = automatonOf(pattern);
  } catch (error) {
    // Without a bound, what repeats cannot look at what follows it.
    expect([(error as Error).message, pattern]).toEqual([
      expect.stringMatching(/within/),
      '^(?:a|b(?=c))*c?$',
    ]);
    return;
  }
  const expression = new RegExp(pattern, 'u');
  fc.assert(
    fc.property(text, (parts) => {
      const own = parts.join('');
      expect([own, matches(states, own)]).toEqual([own, expression.test(own)]);
    }),
    { numRuns: 400 },
  );
});

it('leaves out a length that all texts have', () => {
  const size = automatonOf('^(?=[^]{1,2000}$)[a-z]{2,20}$').length;
  expect(size).toBe(automatonOf('^[a-z]{2,20}$').length);
});
