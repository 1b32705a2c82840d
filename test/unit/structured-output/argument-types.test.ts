import { describe, expect, it } from 'vitest';
import { argumentTypes } from '../../../src/structured-output/argument-types.js';

const typesOf = (parameters: Record<string, unknown>) => argumentTypes([{ name: 'f', parameters }]).f;
const of = (schema: unknown, more: object = {}) => typesOf({ properties: { a: schema }, ...more })!.a;

describe('the types of an argument', () => {
  it.each([
    ['its type', { type: 'string' }, ['string']],
    ['several types', { type: ['null', 'integer'] }, ['number', 'null']],
    ['constants', { enum: ['a', 2] }, ['string', 'number']],
    ['one constant', { const: null }, ['null']],
    ['choices', { anyOf: [{ type: 'string' }, { type: 'array' }] }, ['string', 'array']],
    ['a reference', { $ref: '#/$defs/a~1b' }, ['boolean']],
    ['a reference beside a type', { allOf: [{ $ref: '#/$defs/some' }], type: 'string' }, ['string']],
    ['an old way to allow null', { type: 'string', nullable: true }, ['string', 'null']],
  ])('follow from %s', (_, schema, types) => {
    const $defs = { 'a/b': { type: 'boolean' }, some: { type: ['string', 'null'] } };
    expect(of(schema, { $defs })).toEqual(types);
  });

  it.each([
    ['a schema that says nothing', {}],
    ['a choice that allows all', { anyOf: [{ type: 'string' }, {}] }],
    ['a reference to itself', { $ref: '#/properties/a' }],
    ['a reference to nothing', { $ref: '#/$defs/none' }],
    ['no schema', true],
  ])('are any for %s', (_, schema) => {
    expect(of(schema)).toBeUndefined();
  });

  it('are found in the objects of choices', () => {
    const branch = { type: 'object', properties: { a: { type: 'number' } } };
    expect(typesOf({ anyOf: [{ $ref: '#/$defs/b' }], $defs: { b: branch } })).toEqual({ a: ['number'] });
  });

  it('are found at once where there are very many ways to a schema', () => {
    const $defs: Record<string, unknown> = { a0: { type: 'string' } };
    for (let at = 1; at < 40; at += 1) {
      const $ref = `#/$defs/a${at - 1}`;
      $defs[`a${at}`] = { anyOf: [{ $ref }, { $ref }] };
    }
    expect(of({ $ref: '#/$defs/a39' }, { $defs })).toEqual(['string']);
  });

  it('are none for a tool without parameters', () => {
    expect(argumentTypes([{ name: 'f' }])).toEqual({ f: {} });
  });
});
