import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Template } from '../../../src/text/template.js';

describe('templates', () => {
  it('fill fields, also one that stands there twice, and leave other braces alone', () => {
    const template = new Template('{a} {b}{a} {} {1} {{b}}');
    expect(template.fields).toEqual(['a', 'b']);
    expect(template.render({ a: '$&', b: 'y' })).toBe('$& y$& {} {1} {y}');
    expect(new Template('x: {text}').values('z', 'input')).toEqual({ text: 'z' });
  });

  it('tell the bytes of the rendered text without rendering it', () => {
    const part = fc.oneof(
      fc.constantFrom('{a}', '{b}', '{', '}', '{}', '{c c}', 'é', '漢'),
      fc.string({ unit: 'grapheme', maxLength: 4 }),
    );
    const value = fc.string({ unit: 'grapheme', maxLength: 9 });
    fc.assert(
      fc.property(fc.array(part, { maxLength: 12 }), value, value, (parts, a, b) => {
        const template = new Template(parts.join(''));
        expect(template.bytes({ a, b })).toBe(Buffer.byteLength(template.render({ a, b })));
      }),
    );
    const huge = new Template('{a}'.repeat(21_845));
    expect(huge.bytes({ a: 'x'.repeat(60_000) })).toBe(21_845 * 60_000);
  });

  it.each([
    [{ a: 'x' }, 'The input lacks "b": the input gives "a", the template needs "a", "b"'],
    [{}, 'The input lacks "a", "b": the input gives no fields, the template needs "a", "b"'],
    [
      { a: 'x', b: 'y', c: 'z' },
      'The template has no field "c": the input gives "a", "b", "c", the template needs "a", "b"',
    ],
    ['x', 'The input is one text: the template needs an object with the fields "a", "b"'],
  ])('say what %j lacks or has too much', (input, message) => {
    expect(() => new Template('{a}{b}').values(input as never, 'input.3')).toThrow(
      expect.objectContaining({ code: 'invalid_request', param: 'input.3', message }),
    );
  });

  it('name the first fields only where there are many', () => {
    const many = Object.fromEntries(Array.from({ length: 64 }, (_, i) => [`${i}${'x'.repeat(9_000)}`, '']));
    expect(() => new Template('{a}').values(many, 'input')).toThrow(
      expect.objectContaining({
        message: expect.stringMatching(/^.{0,800} and 56 more, the template needs "a"$/),
      }),
    );
  });
});
