import fc from 'fast-check';
import { expect, it } from 'vitest';
import { exactJson, parseExactly } from '../../../src/text/exact-json.js';

it.each([
  '{"a":1.0,"b":[1.50,-0,{"c":1e5}],"d":"1.0"}',
  '{"id":12345678901234567890,"x":0.00000010}',
  '{"b":1,"10":2,"2":{"x":[]}}',
  '[{"__proto__":{"10":1.0}}]',
  '{"a":[1,2.5,"x",null,true,{}]}',
])('keeps the digits and the order of %s', (json) => {
  const value = parseExactly(json);
  expect(exactJson(value)).toBe(json);
  expect(exactJson({ tools: value, undefined })).toBe(`{"tools":${json}}`);
  expect(value).toEqual(JSON.parse(json));
});

it('is the JSON of JavaScript for everything else', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const json = JSON.stringify(value);
      expect(parseExactly(json)).toEqual(JSON.parse(json));
      expect(JSON.parse(exactJson(parseExactly(json)))).toEqual(JSON.parse(json));
    }),
  );
});

it.each(['', '{', '{"a":1.0', '[1.0,]', '{"a" 1.0}', '01', '1.0 2'])('refuses %j', (json) => {
  expect(() => parseExactly(json)).toThrow(SyntaxError);
});

it('gives whole numbers beyond 53 bits to a function for their key', () => {
  const value = parseExactly('{"seed":9007199254740993,"options":{"seed":7,"id":9007199254740993}}', {
    seed: (digits) => digits.length,
  });
  expect(value).toEqual({ seed: 16, options: { seed: 7, id: 9007199254740992 } });
});
