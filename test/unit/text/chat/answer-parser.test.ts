import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type AnswerFormat, CONTROL, chatFormat } from '../../../../src/text/chat/answer-format.js';
import { answerParser } from '../../../../src/text/chat/answer-parser.js';
import type { WholeAnswer } from '../../../../src/text/chat/answer-parts.js';
import { answerAtOnce, answerInPieces } from '../../../support/answer-in-pieces.js';
import { readQwen3 } from './qwen3.js';

const TAGS: AnswerFormat = { kind: 'tags', reasoning: true, toolCalls: true };
const CHANNELS: AnswerFormat = { kind: 'channels' };

const call = (name: string, text: string) => ({ name, arguments: text });
const answer = (parts: Partial<WholeAnswer>): WholeAnswer => ({
  reasoning: '',
  content: '',
  calls: [],
  ...parts,
});

/** Control tokens of the harmony format, as an answer shows them. */
const h = (text: string) => text.replace(/<\|/g, `${CONTROL}<|`);

const tagged: [string, string, Partial<WholeAnswer>][] = [
  ['plain text', ' Hello.\n', { content: ' Hello.\n' }],
  ['reasoning', '<think>\nadd\n</think>\n\n4', { reasoning: 'add', content: '4' }],
  ['white space before reasoning', ' \n\n <think>a</think>b', { reasoning: 'a', content: 'b' }],
  ['white space before text', ' \n\n <thin', { content: ' \n\n <thin' }],
  ['white space alone', ' \n\n ', { content: ' \n\n ' }],
  [
    'white space within text',
    `a${' \n'.repeat(9)}b${' '.repeat(9)}`,
    { content: `a${' \n'.repeat(9)}b${' '.repeat(9)}` },
  ],
  [
    'a call whose name is longer than a head',
    `<tool_call>{"name": "${'f'.repeat(5_000)}", "arguments": {"a": 1}}</tool_call>`,
    { calls: [call('f'.repeat(5_000), '{"a":1}')] },
  ],
  ['empty reasoning', '<think>\n\n</think>\n\n4', { content: '4' }],
  ['reasoning that does not end', '<think>\nadd', { reasoning: 'add' }],
  [
    'a tag in the middle of a text',
    'Use <think> to think</think>',
    { content: 'Use <think> to think</think>' },
  ],
  [
    'a call after text',
    'I look.\n<tool_call>\n{"name": "f", "arguments": {"a": "}"}}\n</tool_call>',
    { content: 'I look.', calls: [call('f', '{"a": "}"}')] },
  ],
  [
    'two calls',
    '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>\n<tool_call>\n{"name": "g", "arguments": {"b": [1, {}]}}\n</tool_call>',
    { calls: [call('f', '{}'), call('g', '{"b": [1, {}]}')] },
  ],
  [
    'a call whose arguments come first',
    '<tool_call>{"arguments": {"a": 1}, "name": "f"}</tool_call>',
    { calls: [call('f', '{"a":1}')] },
  ],
  [
    'a call whose arguments are a text',
    '<tool_call>{"name": "f", "arguments": "{\\"a\\":1}"}</tool_call>',
    { calls: [call('f', '{"a":1}')] },
  ],
  ['a call without arguments', '<tool_call>{"name": "f"}</tool_call>', { calls: [call('f', '{}')] }],
  [
    'a list of calls',
    '<tool_call>[{"name": "f", "arguments": {}}, {"name": "g", "parameters": {"a": 2}}]</tool_call>',
    { calls: [call('f', '{}'), call('g', '{"a":2}')] },
  ],
  ['no JSON in a call', '<tool_call>\nhello\n</tool_call>', { content: '<tool_call>\nhello\n</tool_call>' }],
  [
    'a call that does not end',
    '<tool_call>\n{"name": "f", "arguments": {"a": 1',
    { calls: [call('f', '{"a": 1')] },
  ],
  ['a call of which only the beginning is there', 'x <tool_call>\n{"na', { content: 'x' }],
  [
    'reasoning, text and a call',
    '<think>a < b</think>Now:\n\n<tool_call>{"name":"f","arguments":{"x":"<"}}</tool_call>',
    { reasoning: 'a < b', content: 'Now:', calls: [call('f', '{"x":"<"}')] },
  ],
];

const channels: [string, string, Partial<WholeAnswer>][] = [
  [
    'reasoning and an answer',
    h(
      '<|start|>assistant<|channel|>analysis<|message|>Add.<|end|><|start|>assistant<|channel|>final<|message|>4<|return|>',
    ),
    { reasoning: 'Add.', content: '4' },
  ],
  [
    'a call',
    h(
      '<|start|>assistant<|channel|>analysis<|message|>Look.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city":"Oslo"}<|call|>',
    ),
    { reasoning: 'Look.', calls: [call('get_weather', '{"city":"Oslo"}')] },
  ],
  [
    'a recipient before the channel',
    h('<|start|>assistant to=functions.f<|channel|>commentary<|constrain|>json<|message|>{}<|call|>'),
    { calls: [call('f', '{}')] },
  ],
  [
    'a preamble before a call',
    h(
      '<|start|>assistant<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to=functions.f<|message|>{}<|call|>',
    ),
    { content: 'I look.', calls: [call('f', '{}')] },
  ],
  [
    'two reasoning messages',
    h('<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>analysis<|message|>b<|end|>'),
    { reasoning: 'a\n\nb' },
  ],
  [
    'a message that does not end',
    h('<|channel|>analysis<|message|>a<|channel|>final<|message|>b'),
    { reasoning: 'a', content: 'b' },
  ],
  [
    'a missing start',
    h('<|channel|>analysis<|message|>a<|end|>assistant<|channel|>final<|message|>b<|return|>'),
    { reasoning: 'a', content: 'b' },
  ],
  [
    'an unknown constraint and spaces',
    h('<|start|>assistant<|channel|> Final <|constrain|>response<|message|>b<|return|>'),
    { content: 'b' },
  ],
  [
    'a recipient that is glued to the channel',
    h('<|start|>assistant<|channel|>commentaryto=functions.f code<|message|>{}<|call|>'),
    { calls: [call('f', '{}')] },
  ],
  [
    'two channels in one header',
    h('<|channel|>commentary to=assistant<|channel|>analysis<|message|>a<|end|><|channel|>final<|message|>b'),
    { reasoning: 'a', content: 'b' },
  ],
  ['text without a header', h('<|start|>assistantHello there<|return|>'), { content: 'Hello there' }],
  [
    'text behind reasoning',
    h('<|channel|>analysis<|message|>a<|end|>b<|return|>'),
    { reasoning: 'a', content: 'b' },
  ],
  [
    'text before a header',
    h('a<|start|>assistant<|channel|>final<|message|>b<|return|>'),
    { content: 'a\n\nb' },
  ],
  [
    'a call without its first tokens',
    h(
      '<|channel|>analysis<|message|>a<|end|>commentary to=functions.f <|constrain|>json<|message|>{"a":1}<|call|>',
    ),
    { reasoning: 'a', calls: [call('f', '{"a":1}')] },
  ],
  [
    'arguments that are a plain text',
    h('<|channel|>commentary to=python <|constrain|>code<|message|>print("a")<|call|>'),
    { calls: [call('python', '"print(\\"a\\")"')] },
  ],
  [
    'no arguments',
    h('<|channel|>commentary to=functions.f<|message|><|call|>'),
    { calls: [call('f', '{}')] },
  ],
  ['a header of a call that is cut off', h('<|channel|>commentary to=functions.f <|constrain|>js'), {}],
  ['the name of a channel that is cut off', h('<|channel|>commen'), {}],
  ['a second message token', h('<|channel|>final<|message|>a<|message|>b'), { content: 'ab' }],
  ['no header at all', 'Hello.', { content: 'Hello.' }],
  ['no message token', h('<|start|>assistant<|channel|>final Hello.'), { content: ' Hello.' }],
  [
    'the spelling of a control token',
    `${h('<|channel|>final<|message|>')}write <|end|> here`,
    { content: 'write <|end|> here' },
  ],
];

describe.each([
  ['tags', TAGS, tagged],
  ['channels', CHANNELS, channels],
] as const)('an answer in %s', (_name, format, cases) => {
  it.each([...cases])('with %s', (_what, text, expected) => {
    expect(answerAtOnce(format, true, text)).toEqual(answer(expected));
  });

  it('is the same in pieces of any length', () => {
    const lengths = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 8 });
    fc.assert(
      fc.property(fc.constantFrom(...cases), lengths, ([, text, expected], cuts) => {
        expect(answerInPieces(format, true, text, cuts)).toEqual(answer(expected));
      }),
    );
  });
});

it('streams content and the arguments of a call as soon as they are certain', () => {
  const parser = answerParser(TAGS, true);
  expect(parser.push('Hel')).toEqual([{ kind: 'content', text: 'Hel' }]);
  expect(parser.push('lo <tool')).toEqual([{ kind: 'content', text: 'lo' }]);
  expect(parser.push('_call>\n{"name": "f", "arguments": {"a"')).toEqual([
    { kind: 'call', call: 0, name: 'f' },
    { kind: 'arguments', call: 0, text: '{"a"' },
  ]);
  expect(parser.push(': 1}')).toEqual([{ kind: 'arguments', call: 0, text: ': 1}' }]);
});

it('leaves calls in the text of a request without tools', () => {
  const text = 'x <tool_call>{"name":"f"}</tool_call>';
  expect(answerAtOnce(TAGS, false, text)).toEqual(answer({ content: text }));
  const harmony = h('<|channel|>commentary to=functions.f<|message|>{}<|call|>');
  expect(answerAtOnce(CHANNELS, false, harmony)).toEqual(answer({ content: '{}' }));
});

describe('the format of answers', () => {
  const format = (template: string, tokens: string[] = []) =>
    chatFormat(
      { texts: { default: template }, variables: {} },
      { added_tokens: tokens.map((content, id) => ({ content, id })) },
    ).answer;

  it('follows from the template and the tokenizer', () => {
    const { templates, file } = readQwen3();
    expect(chatFormat(templates, file).answer).toEqual({ ...TAGS, callForm: 'hermes' });
    expect(format('{{ messages }}')).toEqual({ kind: 'tags', reasoning: false, toolCalls: false });
    const names = ['<|start|>', '<|channel|>', '<|message|>', '<|end|>'];
    expect(format(names.join(''), names)).toEqual(CHANNELS);
    expect(format('<tool_call>')).toMatchObject({ toolCalls: false });
    expect(format("{{ text.split('<channel|>') }}")).toMatchObject({
      reasoning: true,
      reasoningForm: 'channel',
    });
  });
});
