import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { oneLine, parseJson } from '../../../src/text/one-line.js';

describe('one line', () => {
  it('escapes line breaks and invisible characters, and says when it cuts', () => {
    expect(oneLine('a\nb\u001b[31m\u202ec\ud800 é')).toBe('a\\u000ab\\u001b[31m\\u202ec\\ud800 é');
    expect(oneLine('abcdef', 3)).toBe('abc… (6 characters)');
  });

  it.each([
    ['{', /^Expected property name/],
    ['"\n\u202e"', /^Bad control character/],
    ['{"a":[1,"x"]}', 'a.1: Expected a number, but got "x"'],
    [`{"a":[],"\\"${'['.repeat(99)}":1}`, 'Unknown field "\\"[[['],
    ['['.repeat(65), 'nested deeper than 64 levels'],
    ['null', 'Expected an object, but got null'],
    ['{"a":[],"x\\n\\u202e":1}', 'Unknown field "x\\n\\u202e"; the fields are a'],
  ])('says what is wrong with %j', (text, message) => {
    const schema = z.strictObject({ a: z.array(z.number()) });
    expect(() => parseJson(Buffer.from(text), schema)).toThrow(message);
  });
});
