// Tool calls in the forms of all families: how each is found from a template, and read whole and in pieces.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type AnswerFormat, chatFormat } from '../../../../src/text/chat/answer-format.js';
import { answerParser } from '../../../../src/text/chat/answer-parser.js';
import type { WholeAnswer } from '../../../../src/text/chat/answer-parts.js';
import { CALL_FORM_NAMES, type CallFormName } from '../../../../src/text/chat/call-forms.js';
import { ChatTemplate } from '../../../../src/text/chat/chat-template.js';
import { answerAtOnce, answerInPieces } from '../../../support/answer-in-pieces.js';
import { CALL_TEMPLATES } from '../../../support/call-templates.js';

const TYPES = {
  f: { text: ['string'], n: ['number'], flag: ['boolean'], list: ['array'], maybe: ['string', 'null'] },
};
const formatOf = (callForm: CallFormName): AnswerFormat => ({
  kind: 'tags',
  reasoning: true,
  toolCalls: true,
  callForm,
  ...(callForm === 'gemma' && { reasoningForm: 'channel' }),
  argumentTypes: TYPES,
});
const call = (name: string, text: string) => ({ name, arguments: text });

const D = { begin: '<｜tool▁call▁begin｜>', end: '<｜tool▁call▁end｜>', sep: '<｜tool▁sep｜>' };
const [CALLS, CALLS_END] = ['<｜tool▁calls▁begin｜>', '<｜tool▁calls▁end｜>'];

const parameter = (key: string, value: string) => `<parameter=${key}>\n${value}\n</parameter>\n`;
const coder = (name: string, ...pairs: string[]) =>
  `<tool_call>\n<function=${name}>\n${pairs.join('')}</function>\n</tool_call>`;

type Case = [CallFormName, string, string, Partial<WholeAnswer>];
const CASES: Case[] = [
  [
    'glm_lines',
    'several arguments',
    'I look.\n<tool_call>f\n<arg_key>text</arg_key>\n<arg_value>12</arg_value>\n<arg_key>n</arg_key>\n<arg_value>12</arg_value>\n</tool_call>',
    { content: 'I look.', calls: [call('f', '{"text": "12", "n": 12}')] },
  ],
  ['glm_lines', 'no argument', '<tool_call>now\n</tool_call>', { calls: [call('now', '{}')] }],
  ['glm', 'no argument', '<tool_call>now</tool_call>', { calls: [call('now', '{}')] }],
  [
    'glm',
    'a text of several lines, with tags',
    '<tool_call>f<arg_key>text</arg_key><arg_value>\n<b>"a"</b>\\ \n</arg_value></tool_call>',
    { calls: [call('f', '{"text": "\\n<b>\\"a\\"</b>\\\\ \\n"}')] },
  ],
  [
    'glm',
    'arguments of a tool that nobody offered',
    '<tool_call>g<arg_key>a</arg_key><arg_value>true</arg_value><arg_key>b</arg_key><arg_value>yes</arg_value></tool_call>',
    { calls: [call('g', '{"a": true, "b": "yes"}')] },
  ],
  [
    'coder',
    'several lines and numbers beyond those of JavaScript',
    coder('f', parameter('text', 'a\n\n  b'), parameter('n', '1234567890123456789')),
    { calls: [call('f', '{"text": "a\\n\\n  b", "n": 1234567890123456789}')] },
  ],
  [
    'coder',
    'values as Python writes them',
    coder('f', parameter('flag', 'True'), parameter('maybe', 'null'), parameter('list', '[1, {"a": "<b>"}]')),
    { calls: [call('f', '{"flag": true, "maybe": null, "list": [1, {"a": "<b>"}]}')] },
  ],
  [
    'coder',
    'lists and objects as Python writes them',
    coder('f', parameter('list', `['a', "it's", 'it\\'s "b"', {'k': None}]`), parameter('maybe', 'None')),
    { calls: [call('f', '{"list": ["a", "it\'s", "it\'s \\"b\\"", {"k": null}], "maybe": null}')] },
  ],
  [
    'coder',
    'texts that look like values of Python',
    coder('f', parameter('text', 'None'), parameter('maybe', "['a']")),
    { calls: [call('f', '{"text": "None", "maybe": "[\'a\']"}')] },
  ],
  [
    'deepseek',
    'no arguments, not even an object',
    `${CALLS}${D.begin}f${D.sep}${D.end}${CALLS_END}`,
    { calls: [call('f', '{}')] },
  ],
  [
    'deepseek_fenced',
    'a fence around no arguments',
    `${CALLS}${D.begin}function${D.sep}f\n\`\`\`json\n\n\`\`\`${D.end}${CALLS_END}`,
    { calls: [call('f', '{}')] },
  ],
  [
    'kimi',
    'a name without its prefix, and no arguments',
    '<|tool_calls_section_begin|><|tool_call_begin|>f:3<|tool_call_argument_begin|>{"n": 1}<|tool_call_end|><|tool_call_begin|>functions.g:4<|tool_call_argument_begin|><|tool_call_end|><|tool_calls_section_end|>',
    { calls: [call('f', '{"n": 1}'), call('g', '{}')] },
  ],
  [
    'hermes',
    'a call of nothing',
    '<tool_call>\n{"name": "", "arguments": {}}\n</tool_call>',
    { content: '<tool_call>\n{"name": "", "arguments": {}}\n</tool_call>' },
  ],
  [
    'coder',
    'a text that may be null',
    coder('f', parameter('maybe', '5')),
    { calls: [call('f', '{"maybe": "5"}')] },
  ],
  [
    'coder',
    'a value that is not of its type',
    coder('f', parameter('n', 'many')),
    { calls: [call('f', '{"n": "many"}')] },
  ],
  ['coder', 'no argument', coder('f'), { calls: [call('f', '{}')] }],
  [
    'coder',
    'two calls without the tag before them',
    '<function=f>\n<parameter=n>\n1\n</parameter>\n</function>\n<function=g>\n</function>\n</tool_call>',
    { calls: [call('f', '{"n": 1}'), call('g', '{}')] },
  ],
  [
    'coder',
    'a value without an end',
    '<tool_call>\n<function=f>\n<parameter=text>\na\n</function>\n</tool_call>',
    { calls: [call('f', '{"text": "a"}')] },
  ],
  [
    'coder',
    'a value without an end before the next key',
    '<tool_call>\n<function=f>\n<parameter=text>\na\n<parameter=n>\n5\n</parameter>\n</function>\n</tool_call>',
    { calls: [call('f', '{"text": "a", "n": 5}')] },
  ],
  [
    'coder',
    'a value without an end before the next key of a tool that nobody offered',
    '<tool_call>\n<function=g>\n<parameter=a>\n1\n<parameter=b>\n2\n</parameter>\n</function>\n</tool_call>',
    { calls: [call('g', '{"a": 1, "b": 2}')] },
  ],
  [
    'coder',
    'a text with keys that are none of the tool, and within a line',
    coder('f', parameter('text', 'a\n<parameter=x>\n <parameter=n>')),
    { calls: [call('f', '{"text": "a\\n<parameter=x>\\n <parameter=n>"}')] },
  ],
  [
    'glm',
    'values without an end',
    '<tool_call>f<arg_key>text</arg_key><arg_value>a</tool_call>\n<tool_call>f<arg_key>n</arg_key><arg_value>2</tool_call>\n',
    { calls: [call('f', '{"text": "a"}'), call('f', '{"n": 2}')] },
  ],
  [
    'glm_lines',
    'a text without an end',
    '<tool_call>f\n<arg_key>text</arg_key>\n<arg_value>a</b</tool_call>',
    { calls: [call('f', '{"text": "a</b"}')] },
  ],
  [
    'glm',
    'a text with the end of a call',
    '<tool_call>f<arg_key>text</arg_key><arg_value>a</tool_call> b</arg_value></tool_call>',
    { calls: [call('f', '{"text": "a</tool_call> b"}')] },
  ],
  [
    'mistral_list',
    'a list that is cut off',
    'Hi [TOOL_CALLS] [{"name": "f", "arguments": {"n": 1}}, {"name": "g", "arguments": {"a": "}"}}, {"name": "f", "arg',
    { content: 'Hi', calls: [call('f', '{"n":1}'), call('g', '{"a":"}"}')] },
  ],
  [
    'deepseek',
    'text and two calls',
    `Now.${CALLS}${D.begin}f${D.sep}{"n": 1}${D.end}${D.begin}g${D.sep}{"a": "</x>"}${D.end}${CALLS_END}`,
    { content: 'Now.', calls: [call('f', '{"n": 1}'), call('g', '{"a": "</x>"}')] },
  ],
  [
    'deepseek',
    'a call as earlier models write it',
    `${CALLS}${D.begin}function${D.sep}f\n\`\`\`json\n{"n": 1}\n\`\`\`${D.end}${CALLS_END}`,
    { calls: [call('f', '{"n": 1}')] },
  ],
  [
    'deepseek_fenced',
    'misspelt marks',
    `<think>a</think>\n\n<｜tool▁calls｜>function${D.sep}f\n\`\`\`json\n{"n": 1}\`\`\`${D.end}${CALLS_END}`,
    { reasoning: 'a', calls: [call('f', '{"n": 1}')] },
  ],
  [
    'deepseek_fenced',
    'two calls on lines of their own',
    `${CALLS}${D.begin}function${D.sep}f\n\`\`\`json\n{}\n\`\`\`${D.end}\n${D.begin}function${D.sep}g\n\`\`\`json\n{"a": {}}\n\`\`\`${D.end}${CALLS_END}`,
    { calls: [call('f', '{}'), call('g', '{"a": {}}')] },
  ],
  [
    'kimi',
    'text and two calls',
    'Now.<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"n": 1}<|tool_call_end|>' +
      '<|tool_call_begin|>functions.g:12<|tool_call_argument_begin|>{"a": "<|tool_call_end|>"}<|tool_call_end|><|tool_calls_section_end|>',
    { content: 'Now.', calls: [call('f', '{"n": 1}'), call('g', '{"a": "<|tool_call_end|>"}')] },
  ],
  [
    'mistral',
    'text and two calls',
    'Hm. [TOOL_CALLS]f[ARGS]{"n": 1}[TOOL_CALLS]g[CALL_ID]abcdefghi[ARGS]{"a": "[ARGS]"}',
    { content: 'Hm.', calls: [call('f', '{"n": 1}'), call('g', '{"a": "[ARGS]"}')] },
  ],
  [
    'mistral_list',
    'a list, with ids and names behind arguments',
    '[TOOL_CALLS] [{"name": "f", "arguments": {"n": 1}, "id": "abcdefghi"}, {"arguments": {}, "name": "g"}]',
    { calls: [call('f', '{"n":1}'), call('g', '{}')] },
  ],
  [
    'hermes',
    'a tag within a text of JSON',
    '<tool_call>\n{"name": "f", "arguments": {"text": "a </tool_call> b"}}\n</tool_call>\n<tool_call>{"arguments": {"text": "</tool_call>"}, "name": "g"}</tool_call>',
    { calls: [call('f', '{"text": "a </tool_call> b"}'), call('g', '{"text":"</tool_call>"}')] },
  ],
  [
    'hermes',
    'two calls in one tag',
    '<tool_call>\n{"name": "f", "arguments": {"n": 1}}\n{"arguments": {"a": {}}, "name": "g"}, {"name": "f", "arguments": {}}\n</tool_call>',
    { calls: [call('f', '{"n": 1}'), call('g', '{"a":{}}'), call('f', '{}')] },
  ],
  [
    'hermes',
    'JSON behind a call that is none',
    '<tool_call>\n{"name": "f", "arguments": {"n": 1}}\n{"other": 1}\n</tool_call>',
    { calls: [call('f', '{"n": 1}')] },
  ],
  [
    'mistral_list',
    'numbers with more digits than JavaScript has',
    '[TOOL_CALLS][{"arguments": {"id": 12345678901234567890, "x": 1.0}, "name": "f"}]',
    { calls: [call('f', '{"id": 12345678901234567890, "x": 1.0}')] },
  ],
  [
    'hermes',
    'arguments that are a plain text',
    '<tool_call>\n{"name": "f", "arguments": "hello"}\n</tool_call>',
    { calls: [call('f', '"hello"')] },
  ],
  [
    'hermes',
    'arguments that do not close',
    '<tool_call>\n{"name": "f", "arguments": {"list": [1\n</tool_call>\n<tool_call>\n{"name": "g", "arguments": {}}\n</tool_call>',
    { calls: [call('f', '{"list": [1\n]}'), call('g', '{}')] },
  ],
  [
    'hermes',
    'a text within arguments that does not close',
    '<tool_call>\n{"name": "f", "arguments": {"text": "a}}\n</tool_call>\nDone.',
    { content: 'Done.', calls: [call('f', '{"text": "a}}\n')] },
  ],
  [
    'hermes',
    'reasoning that its call ends',
    '<think>I look.\n\n<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>\nDone.',
    { reasoning: 'I look.', content: 'Done.', calls: [call('f', '{}')] },
  ],
  [
    'hermes',
    'a call that reasoning only considers',
    '<think>Use <tool_call>{"name": "f", "arguments": {}}</tool_call>?</think>No.',
    { reasoning: 'Use <tool_call>{"name": "f", "arguments": {}}</tool_call>?', content: 'No.' },
  ],
  [
    'hermes',
    'a tag that reasoning names',
    '<think>A <tool_call> is JSON. Hm',
    { reasoning: 'A <tool_call> is JSON. Hm' },
  ],
  [
    'deepseek',
    'a call that reasoning considers, and another',
    `<think>a${CALLS}${D.begin}f${D.sep}{}${D.end}${CALLS_END}</think>${CALLS}${D.begin}g${D.sep}{}${D.end}${CALLS_END}`,
    { reasoning: `a${CALLS}${D.begin}f${D.sep}{}${D.end}${CALLS_END}`, calls: [call('g', '{}')] },
  ],
  ['hermes', 'the tag of reasoning twice', '<think>\n<think>a</think>b', { reasoning: 'a', content: 'b' }],
  ['hermes', 'an end of reasoning at its beginning', '</think>\n\nb', { content: 'b' }],
  [
    'hermes',
    'a call whose JSON has no end',
    'a<tool_call>{"arguments": {"a": "b}, "name": "f"}</tool_call>b',
    { content: 'a<tool_call>{"arguments": {"a": "b}, "name": "f"}</tool_call>b' },
  ],
  [
    'gemma',
    'reasoning, text and a call with values of all kinds',
    '<|channel>thought\nI look.\n<channel|>Now.<|tool_call>call:f{text:<|"|>a "b", {c}\n<|"|>,n:-1.5e3,flag:true,' +
      'maybe:null,list:[<|"|>x<|"|>,2,{a b:[],<|"|>c:d<|"|>:{}}]}<tool_call|>',
    {
      reasoning: 'I look.',
      content: 'Now.',
      calls: [
        call(
          'f',
          '{"text": "a \\"b\\", {c}\\n", "n": -1.5e3, "flag": true, "maybe": null, "list": ["x", 2, {"a b": [], "c:d": {}}]}',
        ),
      ],
    },
  ],
  [
    'gemma',
    'two calls, one in JSON, and words without quotation marks',
    '<|channel>thought\n<channel|><|tool_call>call:f{"text": "a \\"<tool_call|>\\"", "n": 1}<tool_call|>' +
      '<|tool_call>call:g{a:Oslo,b:True, c: [1 , 2],}<tool_call|>',
    {
      calls: [
        call('f', '{"text": "a \\"<tool_call|>\\"", "n": 1}'),
        call('g', '{"a": "Oslo", "b": true, "c": [1, 2]}'),
      ],
    },
  ],
  [
    'gemma',
    'a call without arguments, and braces too many',
    '<|tool_call>call:f{a:1,{b:2}}<tool_call|><|tool_call>call:g{"a": "b\\q\n\\u00e9"}<tool_call|><|tool_call>call:h<tool_call|>',
    {
      calls: [call('f', '{"a": 1, "b": 2}'), call('g', '{"a": "b\\\\q\\n\\u00e9"}'), call('h', '{}')],
    },
  ],
  [
    'gemma',
    'arguments that do not close',
    '<|tool_call>call:f{list:[{text:<|"|>a<tool_call|><|tool_call>call:g{a:<tool_call|>Done.',
    { content: 'Done.', calls: [call('f', '{"list": [{"text": "a"}]}'), call('g', '{"a": null}')] },
  ],
  ['glm', 'a call of another form', '<tool_call>{"name": "f"}', { content: '<tool_call>{"name": "f"}' }],
  ['glm', 'a tag that is none', 'A <tool_call> is <b>.', { content: 'A <tool_call> is <b>.' }],
];

/** Each form with two calls as its template writes them. */
const WRITTEN = CALL_FORM_NAMES.map((name): Case => {
  const given = { text: 'tea for 2', n: 2 };
  const text = ['deepseek', 'deepseek_fenced'].includes(name);
  const calls = ['f', 'g'].map((called, at) => ({
    id: name === 'kimi' ? `functions.${called}:${at}` : `call0000${at}`,
    type: 'function',
    function: { name: called, arguments: text ? JSON.stringify(given) : given },
  }));
  const messages = [{ role: 'assistant', content: text ? null : '', tool_calls: calls }];
  const rendered = new ChatTemplate(CALL_TEMPLATES[name], {}).render({ messages });
  const json = text ? '{"text":"tea for 2","n":2}' : '{"text": "tea for 2", "n": 2}';
  const own = name === 'mistral_list' ? JSON.stringify(given) : json;
  const written = rendered.replace(
    /^<(?:\|turn>model|\|im_start\|>assistant|\|im_assistant\|>|\|assistant\|><think><\/think>|｜Assistant｜>)/,
    '',
  );
  return [
    name,
    'calls as its template writes them',
    written.trimStart(),
    { calls: [call('f', own), call('g', own)] },
  ];
});

const answer = (parts: Partial<WholeAnswer>): WholeAnswer => ({
  reasoning: '',
  content: '',
  calls: [],
  ...parts,
});

describe('an answer', () => {
  it.each([...WRITTEN, ...CASES])('in the form %s, with %s', (form, _, text, expected) => {
    expect(answerAtOnce(formatOf(form), true, text)).toEqual(answer(expected));
  });

  it('is the same in pieces of any length', () => {
    const lengths = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 8 });
    fc.assert(
      fc.property(fc.constantFrom(...WRITTEN, ...CASES), lengths, ([form, , text, expected], cuts) => {
        expect(answerInPieces(formatOf(form), true, text, cuts)).toEqual(answer(expected));
      }),
      { numRuns: 400 },
    );
  });

  it.each([...WRITTEN, ...CASES.filter(([, , text]) => /^[<[](?!think>|\|channel>)/.test(text))])(
    'that a grammar binds to the form %s shows no mark wherever it is cut off: %s',
    (form, _, text, expected) => {
      const format = { ...formatOf(form), boundCalls: true } as const;
      for (let length = 1; length < text.length; length += 1) {
        const { content } = answerAtOnce(format, true, text.slice(0, length));
        expect((expected.content ?? '').startsWith(content.trimEnd()), text.slice(0, length)).toBe(true);
      }
    },
  );

  it('that a grammar binds to JSON or a call keeps what looks like a mark within JSON', () => {
    const format = { ...formatOf('glm'), boundCalls: true } as const;
    expect(answerAtOnce(format, true, '{"a": "<tool')).toEqual(answer({ content: '{"a": "<tool' }));
  });

  it('shows no mark that is cut off within a character', () => {
    const format = { ...formatOf('deepseek'), boundCalls: true } as const;
    for (const text of ['<\ufffd', `${CALLS}${D.begin}f<\ufffd`, `${CALLS}${D.begin}f${D.sep}`])
      expect(answerAtOnce(format, true, text)).toEqual(answer({}));
  });

  it('streams a text argument as it comes', () => {
    const parser = answerParser(formatOf('coder'), true);
    parser.push('<tool_call>\n<function=f>\n<parameter=text>\n');
    expect(parser.push('one "two"\nth')).toEqual([
      { kind: 'arguments', call: 0, text: 'one \\"two\\"\\nth' },
    ]);
    expect(parser.push('ree\n</para')).toEqual([{ kind: 'arguments', call: 0, text: 'ree' }]);
    expect(parser.push('meter>\n</function>')).toEqual([{ kind: 'arguments', call: 0, text: '"}' }]);
    const own = answerParser(formatOf('gemma'), true);
    own.push('<|tool_call>call:f{"text": "');
    expect(own.push('one \\"two')).toEqual([{ kind: 'arguments', call: 0, text: 'one \\"two' }]);
  });
});

describe('the form of calls', () => {
  const found = (template: string) =>
    chatFormat({ texts: { default: template }, variables: {} }, { added_tokens: [] });

  it.each(CALL_FORM_NAMES)('%s is that in which the template writes a call', (name) => {
    expect(found(CALL_TEMPLATES[name]).answer).toMatchObject({ toolCalls: true, callForm: name });
  });

  it('is told by its marks where a template cannot be rendered', () => {
    const broken = "{{ raise_exception('no') }}";
    expect(
      found(`${broken}<tool_call><arg_key></arg_key><arg_value></arg_value></tool_call>`).answer,
    ).toMatchObject({
      callForm: 'glm_lines',
    });
    expect(found(`${broken}{{ '<tool_call></tool_call>' }}`).answer).toMatchObject({ callForm: 'hermes' });
    expect(found(broken).answer).toEqual({ kind: 'tags', reasoning: false, toolCalls: false });
  });

  it('is known of templates that take only short ids', () => {
    expect(found(CALL_TEMPLATES.mistral_list).shortCallIds).toBe(true);
    expect(found(CALL_TEMPLATES.mistral).shortCallIds).toBeUndefined();
  });
});
