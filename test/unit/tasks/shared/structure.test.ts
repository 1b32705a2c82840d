// The schemas of forced calls.
import { describe, expect, it } from 'vitest';
import type { SidaError } from '../../../../src/errors.js';
import type { ChatTool } from '../../../../src/tasks/shared/conversation-schema.js';
import { structureOf } from '../../../../src/tasks/shared/structure.js';
import { CALL_FORMS, type PairMarks } from '../../../../src/text/chat/call-forms.js';

const node = {
  type: 'object',
  properties: { name: { type: 'string' }, children: { type: 'array', items: { $ref: '#/$defs/Node' } } },
  required: ['name', 'children'],
};
const empty = { type: 'object', properties: {} };

function tool(parameters: ChatTool['function']['parameters']): ChatTool {
  return { type: 'function', function: { name: 'f', ...(parameters !== undefined && { parameters }) } };
}

function forced(functions: readonly ChatTool[], pairs?: PairMarks) {
  const tools = functions.map((own, at) => ({ tool: own, field: `tools.${at}.function` }));
  return structureOf({ content: undefined, choice: 'required', tools, calls: true, pairs });
}

function schemaOf(parameters: ChatTool['function']['parameters']): unknown {
  return JSON.parse(forced([tool(parameters)])!.calls![0]!.schema);
}

function errorOf(demand: () => unknown): SidaError {
  try {
    demand();
  } catch (error) {
    return error as SidaError;
  }
  throw new Error('It was accepted');
}

describe('the parameters of a forced call', () => {
  it.each<[string, Record<string, unknown>]>([
    ['a reference', { $ref: '#/$defs/Node', $defs: { Node: node } }],
    ['alternatives', { anyOf: [empty, { properties: { a: {} } }] }],
    ['exclusive alternatives', { oneOf: [{ ...empty, type: ['object'] }] }],
    ['a single schema of all', { allOf: [{ $ref: '#/definitions/a' }], definitions: { a: empty } }],
    ['one of some objects', { enum: [{ a: 1 }, { a: 2 }] }],
    ['a type', empty],
  ])('may be %s, as the client wrote them', (_, parameters) => {
    expect(schemaOf(parameters)).toEqual(parameters);
  });

  it.each<[string, Record<string, unknown> | undefined]>([
    ['are missing', undefined],
    ['are empty', {}],
    ['have properties alone', { properties: { a: { type: 'null' } } }],
  ])('are an object where they %s', (_, parameters) => {
    expect(schemaOf(parameters)).toMatchObject({ ...parameters, type: 'object' });
  });

  it.each<[string, Record<string, unknown>]>([
    ['a text', { type: 'string' }],
    ['an object or nothing', { type: ['object', 'null'] }],
    ['a list behind a reference', { $ref: '#/$defs/a', $defs: { a: { type: 'array' } } }],
    ['an alternative that is none', { anyOf: [empty, { type: 'null' }] }],
    ['an alternative of any type', { anyOf: [empty, {}] }],
    ['values that are none', { enum: [{}, 1] }],
  ])('may not be %s', (_, parameters) => {
    const { code, message, param } = errorOf(() => forced([tool(undefined), tool(parameters)]));
    expect([code, param]).toEqual(['invalid_request', 'tools.1.function.parameters']);
    expect(message).toMatch(/allows values that are no objects/);
  });

  it('may have very many ways to the same schema', () => {
    const $defs: Record<string, unknown> = { a0: empty };
    for (let at = 1; at < 20; at += 1) {
      const $ref = `#/$defs/a${at - 1}`;
      $defs[`a${at}`] = { anyOf: [{ $ref }, { $ref }] };
    }
    const parameters = { $ref: '#/$defs/a19', $defs };
    expect(schemaOf(parameters)).toBeDefined();
    expect(forced([tool(parameters)], CALL_FORMS.glm.pairs)).toBeDefined();
    const within = { ...empty, properties: { a: { $ref: '#/$defs/a19' } }, $defs };
    expect(forced([tool(within)], CALL_FORMS.glm.pairs)).toBeDefined();
  });

  it.each<[string, Record<string, unknown>, RegExp]>([
    ['constants', { enum: [{ a: 1 }] }, /no object with named properties/],
    [
      'a circle',
      { $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/a' } } },
      /no object with named properties/,
    ],
    ['names with the marks of pairs', { ...empty, properties: { 'a>': {} } }, /"a>" has "<", ">"/],
  ])('may not be %s where the model writes pairs', (_, parameters, why) => {
    const { code, message, param } = errorOf(() => forced([tool(parameters)], CALL_FORMS.glm.pairs));
    expect([code, param]).toEqual(['invalid_request', 'tools.0.function.parameters']);
    expect(message).toMatch(why);
    expect(forced([tool(parameters)])).toBeDefined();
  });
});
