// Whole answers that a schema binds: reasoning stays free, and the schema binds the content or the call alone.
import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterEach, describe, expect, it } from 'vitest';
import { type AnswerStructure, answerGrammar } from '../../../src/structured-output/answer-grammar.js';
import { argumentTypes } from '../../../src/structured-output/argument-types.js';
import type { Matcher } from '../../../src/structured-output/matchers.js';
import { pairsGrammar } from '../../../src/structured-output/pairs-grammar.js';
import {
  type AnswerFormat,
  CHANNEL_TOKENS,
  CONTROL,
  reasoningTags,
} from '../../../src/text/chat/answer-format.js';
import { CALL_FORM_NAMES, CALL_FORMS, marksOf, TOOL_CALL_TAGS } from '../../../src/text/chat/call-forms.js';
import { ChatTemplate } from '../../../src/text/chat/chat-template.js';
import { answerAtOnce } from '../../support/answer-in-pieces.js';
import { byteTokenizer } from '../../support/byte-tokenizer.js';
import { CALL_TEMPLATES } from '../../support/call-templates.js';
import {
  allowedOf,
  bytesOf,
  END,
  type GrammarRun,
  grammarRun,
  randomNumbers,
  randomText,
  VOCAB,
} from '../../support/grammar-run.js';

const SCHEMA = {
  type: 'object',
  properties: { a: { enum: [1, 2] }, b: { type: 'string', maxLength: 2 } },
  required: ['a', 'b'],
  additionalProperties: false,
};
const isThing = new Ajv2020({ strict: false }).compile(SCHEMA);
const bound = { schema: JSON.stringify(SCHEMA), closed: true };
/** No JSON, and text that looks like control tokens. */
const THOUGHT = 'Not {"json" <|channel|>final<|message|> <think> at all';

let run: GrammarRun;
afterEach(() => run.threads.close());

/** A model whose control tokens follow those of bytes. Writes answers token by token, each of which must be allowed. */
async function writer(
  controls: readonly string[],
  structure: AnswerStructure,
  format: AnswerFormat,
  prefix = '',
) {
  const ids = new Map(controls.map((name, at) => [name, VOCAB + at]));
  const { added_tokens, ...rest } = byteTokenizer(END) as { added_tokens: object[] };
  const added = [...ids].map(([content, id]) => ({ id, content, special: true }));
  const { return: returned, call } = CHANNEL_TOKENS;
  const endTokens = format.kind === 'channels' ? [ids.get(returned)!, ids.get(call)!] : [END];
  run = await grammarRun({
    tokenizer: { ...rest, added_tokens: [...added_tokens, ...added] },
    data: {
      vocabSize: VOCAB + 32,
      endTokens,
      controls: new Map([...ids].map(([name, id]) => [id, name])),
    },
  });
  const matcher = await run.open(answerGrammar(structure, { format, controls, prefix }));
  let text = prefix.replaceAll(CONTROL, '') === '' ? '' : prefix;
  const write = (...parts: string[]) => {
    for (const part of parts) {
      const control = ids.get(part);
      for (const id of control === undefined ? bytesOf(part) : [control]) {
        expect(allowedOf(matcher), `${part} after ${text}`).toContain(id);
        matcher.take(id);
      }
      text += control !== undefined && format.kind === 'channels' ? CONTROL + part : part;
    }
  };
  const names = new Map([...ids].map(([name, id]) => [id, name]));
  /** The control tokens that may follow. */
  const controlsNext = () => allowedOf(matcher).flatMap((id) => names.get(id) ?? []);
  return { matcher, write, controlsNext, ids, endTokens, answer: () => answerAtOnce(format, true, text) };
}

function expectEnd(matcher: Matcher, endTokens: readonly number[]): void {
  expect(allowedOf(matcher).sort()).toEqual([...endTokens].sort());
}

describe('an answer in the harmony format', () => {
  const format = { kind: 'channels' } as const;
  const controls = Object.values(CHANNEL_TOKENS);
  const { start, channel, constrain, message, end } = CHANNEL_TOKENS;
  const begun = `${CONTROL}${start}assistant`;

  it('is bound in its final channel, and thinks freely before', async () => {
    const own = await writer(controls, { content: bound }, format, begun);
    expect(own.controlsNext()).toEqual([channel]);
    own.write(channel, 'analysis', message, THOUGHT);
    expect(own.controlsNext()).toEqual([end]);
    own.write(end, start, 'assistant', channel, 'final', message);
    expect(allowedOf(own.matcher)).toEqual(bytesOf('{'));
    own.write('{"a": 1, "b": "x"}');
    expectEnd(own.matcher, own.endTokens);
    const { reasoning, content } = own.answer();
    expect(reasoning).toBe(THOUGHT);
    expect(isThing(JSON.parse(content))).toBe(true);
  });

  it('may begin with its final channel, and has no other', async () => {
    const own = await writer(controls, { content: bound }, format, begun);
    own.write(channel);
    expect(allowedOf(own.matcher).sort()).toEqual(bytesOf('af').sort());
    own.write('final', message, '{"a": 2, "b": ""}');
    expectEnd(own.matcher, own.endTokens);
  });

  it('is bound in the arguments of a call, which a tool demands', async () => {
    const own = await writer(controls, { calls: [{ name: 'f', ...bound }] }, format, begun);
    own.write(channel, 'analysis', message, THOUGHT, end, start, 'assistant', channel);
    expect(allowedOf(own.matcher)).toEqual(bytesOf('c'));
    own.write('commentary to=functions.f ', constrain, 'json', message, '{"a": 1, "b": "é"}');
    expectEnd(own.matcher, own.endTokens);
    const { calls, content, reasoning } = own.answer();
    expect([reasoning, content, calls]).toEqual([
      THOUGHT,
      '',
      [{ name: 'f', arguments: '{"a": 1, "b": "é"}' }],
    ]);
  });

  it('is refused where the template has begun a channel', () => {
    const prefix = `${begun}${CONTROL}${channel}analysis${CONTROL}${message}`;
    expect(() => answerGrammar({ content: bound }, { format, controls, prefix })).toThrow(
      /begins the answer with .*analysis.*no structure can be demanded/,
    );
  });
});

describe('an answer with tags', () => {
  const format = { kind: 'tags', reasoning: true, toolCalls: true } as const;
  const [think, thinkEnd] = reasoningTags();
  const [call, callEnd] = TOOL_CALL_TAGS;
  const controls = [think, thinkEnd, call, callEnd];

  it('thinks freely in tokens of its own, and is bound behind them', async () => {
    const own = await writer(controls, { content: bound }, format);
    expect(own.controlsNext()).toEqual([think]);
    own.write(think, THOUGHT.replace(think, ''));
    expect(own.controlsNext()).toEqual([thinkEnd]);
    own.write(thinkEnd);
    expect(allowedOf(own.matcher).sort()).toEqual(bytesOf('\n{').sort());
    own.write('\n\n', '{"a": 1, "b": "x"}');
    expectEnd(own.matcher, own.endTokens);
    expect(isThing(JSON.parse(own.answer().content))).toBe(true);
  });

  it('begins no control token with the byte that marks one in grammars', async () => {
    const own = await writer(controls, { content: bound }, format);
    expect(allowedOf(own.matcher)).toEqual([...bytesOf('{'), own.ids.get(think)]);
    own.write(think);
    expect(allowedOf(own.matcher)).not.toContain(bytesOf('\x01')[0]);
  });

  it('thinks in a channel', async () => {
    const [open, close] = ['<|channel>', '<channel|>'];
    const channel = { ...format, reasoningForm: 'channel' } as const;
    const own = await writer([open, close], { content: bound }, channel);
    expect(own.controlsNext()).toEqual([open]);
    own.write(open, 'thought\nHm.\n');
    expect(own.controlsNext()).toEqual([close]);
    own.write(close, '{"a": 1, "b": "x"}');
    expectEnd(own.matcher, own.endTokens);
    expect(own.answer()).toEqual({ reasoning: 'Hm.', content: '{"a": 1, "b": "x"}', calls: [] });
  });

  it('may do without reasoning', async () => {
    const own = await writer(controls, { content: bound }, format);
    own.write('{"a": 1, "b": "x"}');
    expectEnd(own.matcher, own.endTokens);
  });

  it('goes on with the reasoning that the template began, in tags of plain text', async () => {
    const own = await writer([], { content: bound }, format, think);
    own.write('Hm: {"a" </thin </think', '>', '\n\n', '{"a": 2, "b": "</"}');
    expectEnd(own.matcher, own.endTokens);
    const { reasoning, content } = own.answer();
    expect([reasoning, content]).toEqual(['Hm: {"a" </thin', '{"a": 2, "b": "</"}']);
  });

  it('is JSON or a call where the model may do either', async () => {
    const structure = { content: bound, calls: [{ name: 'f', ...bound }] };
    const own = await writer(controls, structure, format);
    expect(own.controlsNext()).toEqual([think, call]);
    own.write(
      think,
      'so',
      thinkEnd,
      '\n',
      call,
      '\n{"name": "f", "arguments": {"a": 1, "b": "x"}}\n',
      callEnd,
    );
    expectEnd(own.matcher, own.endTokens);
    expect(own.answer()).toEqual({
      reasoning: 'so',
      content: '',
      calls: [{ name: 'f', arguments: '{"a": 1, "b": "x"}' }],
    });
  });
});

describe.each(CALL_FORM_NAMES)('a demanded call in the form %s', (name) => {
  const parameters = {
    type: 'object',
    properties: { text: { type: 'string' }, n: { type: 'integer' } },
    required: ['text', 'n'],
  };
  const tools = [{ name: 'get_tea', parameters }];
  const format: AnswerFormat = {
    kind: 'tags',
    reasoning: true,
    toolCalls: true,
    callForm: name,
    argumentTypes: argumentTypes(tools),
    boundCalls: true,
  };
  const structure = { calls: [{ name: 'get_tea', schema: JSON.stringify(parameters), closed: true }] };
  /** As the template writes it, from the first mark on. */
  const written = () => {
    const given = { text: 'tea <b> "2"', n: 2 };
    const id = name === 'kimi' ? 'functions.get_tea:0' : 'abcdefghi';
    const call = { id, type: 'function', function: { name: 'get_tea', arguments: given } };
    const asText = { ...call.function, arguments: JSON.stringify(given).replace(/([:,])/g, '$1 ') };
    const render = (content: null | '', own: object) =>
      new ChatTemplate(CALL_TEMPLATES[name], {}).render({
        messages: [{ role: 'assistant', content, tool_calls: [{ ...call, function: own }] }],
      });
    const text = name.startsWith('deepseek') ? render(null, asText) : render('', call.function);
    const { section, begin } = CALL_FORMS[name];
    const own = text.slice(text.indexOf(section?.begins[0] ?? begin));
    // Under a grammar its arguments are JSON.
    if (name === 'gemma') return own.replace(/\{.*\}/, asText.arguments);
    // In a conversation there are ids, which models do not write in a list.
    return name === 'mistral_list' ? own.replace('] [', '][').replace(', "id": "abcdefghi"', '') : own;
  };

  it.each([
    ['tokens', marksOf(CALL_FORMS[name])],
    ['plain text', []],
  ])('is written as the template writes it, with marks that are %s', async (_, marks) => {
    const own = await writer([...reasoningTags(), ...marks], structure, format);
    const marked = marks.map((mark) => mark.replace(/[\\[\]|]/g, '\\$&')).join('|');
    own.write(...written().split(new RegExp(`(${marked || '(?!)'})`)));
    expectEnd(own.matcher, own.endTokens);
    const { calls, content, reasoning } = own.answer();
    expect([reasoning, content, calls.map((call) => call.name)]).toEqual(['', '', ['get_tea']]);
    expect(JSON.parse(calls[0]!.arguments)).toEqual({ text: 'tea <b> "2"', n: 2 });
  });
});

describe.each(['glm', 'glm_lines', 'coder', 'gemma'] as const)(
  'random arguments in the form %s',
  (callForm) => {
    const parameters = {
      type: 'object',
      properties: {
        short: { type: 'string', maxLength: 3 },
        kind: { enum: ['a', 'b c', 7, null] },
        code: { type: 'string', pattern: '^[A-C]{2}\\d$' },
        n: { type: 'integer', minimum: -5, maximum: 120 },
        maybe: { type: ['string', 'null'], maxLength: 2 },
        list: { type: 'array', items: { type: 'string', maxLength: 2 }, maxItems: 2 },
        thing: { $ref: '#/$defs/thing' },
        either: { anyOf: [{ $ref: '#/$defs/thing' }, { type: 'string', pattern: '^x+$' }] },
      },
      required: ['short', 'kind', 'thing', 'either'],
      additionalProperties: false,
      $defs: { thing: { type: 'object', properties: { on: { type: 'boolean' } }, required: ['on'] } },
    };
    const isValid = new Ajv2020({ strict: false }).compile(parameters);

    it('follow the schema', async () => {
      run = await grammarRun();
      const argumentTypesOf = argumentTypes([{ name: 'f', parameters }]);
      const format: AnswerFormat = {
        kind: 'tags',
        reasoning: false,
        toolCalls: true,
        callForm,
        argumentTypes: argumentTypesOf,
      };
      const calls = [{ name: 'f', schema: JSON.stringify(parameters), closed: true }];
      const grammar = answerGrammar({ calls }, { format, controls: [], prefix: '' });
      const random = randomNumbers(5);
      let ended = 0;
      for (let item = 0; item < 30; item += 1) {
        const text = randomText(await run.open(grammar, item), random);
        if (text === null) continue;
        ended += 1;
        const { content, calls: found } = answerAtOnce(format, true, text);
        expect(content, text).toBe('');
        expect(isValid(JSON.parse(found[0]!.arguments)), `${text} ${JSON.stringify(isValid.errors)}`).toBe(
          true,
        );
      }
      expect(ended).toBeGreaterThan(20);
    });
  },
);

it.each([
  ['a required name without a schema', { properties: { b: {} }, required: ['a'] }],
  ['names of a pattern', { patternProperties: { '^a': {} } }],
  ['bounds of names', { propertyNames: { maxLength: 3 } }],
  ['a number of properties', { properties: { a: {} }, minProperties: 1 }],
  ['a name that must be absent', { properties: { a: false } }],
])('pairs are refused for %s', (_, schema) => {
  const marks = CALL_FORMS.glm.pairs!;
  const written = { schema: JSON.stringify({ type: 'object', ...schema }), closed: false, marks };
  expect(() => pairsGrammar({ ...written, marked: (text) => text })).toThrow();
});

describe('values in tags', () => {
  const format = { kind: 'tags', reasoning: false, toolCalls: true, callForm: 'glm' } as const;
  const call = (parameters: object, closed = true) => ({
    calls: [{ name: 'f', schema: JSON.stringify(parameters), closed }],
  });

  it.each([
    ['tokens', marksOf(CALL_FORMS.glm)],
    ['plain text', []],
  ])('are any pairs for an object that names none, with marks that are %s', async (_, marks) => {
    const own = await writer(marks, call({ type: 'object' }, false), format);
    const pair = ['<arg_key>', 'a b', '</arg_key>', '<arg_value>', '<b> 1', '</arg_value>'];
    own.write('<tool_call>', 'f', ...pair, '<arg_key>', 'c', '</arg_key>', '<arg_value>', '[2]');
    own.write('</arg_value>', '</tool_call>');
    expectEnd(own.matcher, own.endTokens);
    expect(own.answer().calls).toEqual([{ name: 'f', arguments: '{"a b": "<b> 1", "c": [2]}' }]);
  });

  it('are none for a tool without arguments', async () => {
    const own = await writer([], call({ type: 'object', properties: {} }), format);
    own.write('<tool_call>f</tool_call>');
    expectEnd(own.matcher, own.endTokens);
    expect(own.answer().calls).toEqual([{ name: 'f', arguments: '{}' }]);
  });

  it('that may be texts or lists of numbers are no texts that look like another list', async () => {
    const list = { type: 'array', items: { type: 'integer' } };
    const parameters = {
      type: 'object',
      properties: { v: { anyOf: [{ type: 'string' }, list] } },
      required: ['v'],
    };
    const own = await writer([], call(parameters), format);
    own.write('<tool_call>f<arg_key>v</arg_key><arg_value>[');
    expect(allowedOf(own.matcher).sort()).toEqual(bytesOf('-0123456789]').sort());
    own.write('1, 2]</arg_value></tool_call>');
    expectEnd(own.matcher, own.endTokens);
    const text = await writer([], call(parameters), format);
    text.write('<tool_call>f<arg_key>v</arg_key><arg_value>a [1</arg_value></tool_call>');
    expectEnd(text.matcher, text.endTokens);
  });
});
