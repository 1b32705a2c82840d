/** How histories with calls, system messages and begun answers become the variables of a template. */
import { describe, expect, it } from 'vitest';
import { conversationOf } from '../../../../src/tasks/shared/conversation.js';
import type { ChatMessage, ChatTool } from '../../../../src/tasks/shared/conversation-schema.js';
import { chatFormat } from '../../../../src/text/chat/answer-format.js';
import { ChatEncoder } from '../../../../src/text/chat/chat-encoder.js';
import { controlTokens } from '../../../../src/text/chat/control-tokens.js';
import { exactJson } from '../../../../src/text/exact-json.js';
import { CALL_TEMPLATES } from '../../../support/call-templates.js';
import { casesOf, testCases } from '../../../support/cases.js';
import { openQwen3 } from './qwen3.js';

interface Case {
  id: string;
  template: string;
  messages: ChatMessage[];
  tools?: ChatTool[];
  /** The prompt, without the beginning of an answer. */
  right: string;
}

interface Request {
  messages: ChatMessage[];
  tools?: ChatTool[];
  variables?: Record<string, unknown>;
}

const { file, tokenizer } = openQwen3();

function prepared(template: string, { messages, tools = [], variables }: Request) {
  const templates = { texts: { default: template }, variables: {} };
  const limits = { maxInputBytes: 1 << 20 } as Parameters<typeof conversationOf>[2];
  const contentFields = messages.map((_, at) => `messages.${at}.content`);
  const { conversation, warnings } = conversationOf(
    { messages, contentFields, tools, variables },
    chatFormat(templates, file),
    limits,
  );
  const encoder = new ChatEncoder(tokenizer, controlTokens(file, templates), templates);
  const json = exactJson(conversation);
  return { prompt: encoder.render(json), ids: encoder.encode(json), warnings };
}

const prompt = (template: string, request: Request) => prepared(template, request).prompt;

testCases('conversations', casesOf<Case>('peers/conversations.jsonl'), (each) => {
  expect(prompt(each.template, { ...each, variables: { add_generation_prompt: false } })).toBe(each.right);
});

describe('the calls of a history', () => {
  const call = (json: string) => ({
    id: 'c',
    type: 'function' as const,
    function: { name: 'f', arguments: json },
  });
  const history = (content: string | null, json = '{"b": 1.0, "10": 12345678901234567890}'): Request => ({
    messages: [
      { role: 'user', content: 'hi' },
      { role: 'assistant', content, tool_calls: [call(json)] },
      { role: 'tool', tool_call_id: 'c', content: 'r' },
    ],
  });
  const calls = (written: string) =>
    `{% for m in messages %}{% if m.tool_calls %}{% for c in m.tool_calls %}<${written}>{% endfor %}{% endif %}{% endfor %}`;

  it.each([
    [
      'JSON of an object',
      '{{ c.function.name }} {{ c.function.arguments | tojson }}',
      'f {"b": 1.0, "10": 12345678901234567890}',
    ],
    [
      'the items of an object',
      '{{ c.function.name }}{% for k, v in c.function.arguments.items() %} {{ k }}={{ v }}{% endfor %}',
      'f b=1.0 10=12345678901234567890',
    ],
    [
      'a text that it joins',
      "{{ c.function.name + ' ' + c.function.arguments }}",
      'f {"b": 1.0, "10": 12345678901234567890}',
    ],
    [
      'a text that it prints',
      '{{ c.function.name }} {{ c.function.arguments }}',
      'f {"b": 1.0, "10": 12345678901234567890}',
    ],
  ])('have arguments as the template takes them: %s', (_, written, right) => {
    expect(prompt(calls(written), history(null))).toBe(`<${right}>`);
    expect(prompt(calls(written), history(''))).toBe(`<${right}>`);
  });

  it('have an empty object where a server has written none', () => {
    expect(prompt(calls('{{ c.function.arguments | tojson }}'), history(null, ''))).toBe('<{}>');
    expect(prompt(calls('{{ c.function.name + c.function.arguments }}'), history(null, ''))).toBe('<f{}>');
  });

  it('keep arguments that are no object as they are', () => {
    expect(
      prompt(calls('{{ c.function.name }} {{ c.function.arguments | tojson }}'), history(null, '[1')),
    ).toBe('<f "[1">');
  });

  const name = '{{ m.tool_calls[0].function.name }}{{ m.tool_calls[0].function.arguments | tojson }}';
  it.each([
    ['none alone', `{% if m.tool_calls and m.content is none %}${name}{% endif %}`, ['f{}', 'f{}']],
    ['a text alone', `{% if m.tool_calls and m.content is string %}${name}{% endif %}`, ['f{}', 'f{}']],
    [
      'a text, whose methods it calls',
      `{% if m.tool_calls %}${name}{{ m.content.strip() }}{% endif %}`,
      ['f{}', 'f{}'],
    ],
    ['a text that it prints', `{% if m.tool_calls %}${name}{{ m.content }}{% endif %}`, ['f{}', 'f{}']],
    ['both', `{% if m.tool_calls %}${name}{{ m.content is none }}{% endif %}`, ['f{}True', 'f{}False']],
  ])('have a content that the template takes beside them: %s', (_, written, right) => {
    const template = `{% for m in messages %}${written}{% endfor %}`;
    expect([null, ''].map((content) => prompt(template, history(content, '{}')))).toEqual(right);
  });
});

describe('system messages', () => {
  const turns = '{% for m in messages %}[{{ m.role }}: {{ m.content }}]{% endfor %}';
  const refusing = `{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}${turns}`;
  const alternating = `{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('late') }}{% endif %}{% endfor %}${turns}`;
  const messages: ChatMessage[] = [
    { role: 'system', content: 'S' },
    { role: 'user', content: 'a' },
    { role: 'assistant', content: 'b' },
    { role: 'system', content: 'T' },
    { role: 'user', content: 'c' },
  ];

  it('stay where the template takes them', () => {
    const { prompt, warnings } = prepared(turns, { messages });
    expect(prompt).toBe('[system: S][user: a][assistant: b][system: T][user: c]');
    expect(warnings).toEqual([]);
  });

  it('stand in the message of the user where the template refuses them, and the answer says so', () => {
    const never = `{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no') }}{% endif %}{% endfor %}${turns}`;
    for (const template of [refusing, never].slice(1)) {
      const { prompt, warnings } = prepared(template, { messages });
      expect(prompt).toBe('[user: S\na][assistant: b][user: T\nc]');
      expect(warnings).toHaveLength(2);
    }
    const late = prepared(alternating, { messages });
    expect(late.prompt).toBe('[system: S][user: a][assistant: b][user: T\nc]');
    expect(late.warnings).toEqual([expect.stringContaining('behind other messages')]);
  });

  it('may be answered by reasoning alone, which has no content', () => {
    const messages: ChatMessage[] = [
      { role: 'user', content: 'a' },
      { role: 'assistant', content: null, reasoning_content: 'b' },
      { role: 'user', content: 'c' },
    ];
    expect(prompt('{% for m in messages %}[{{ m.content }}]{% endfor %}', { messages })).toBe('[a][][c]');
  });

  it('become a message of the user where none follows', () => {
    const alone: ChatMessage[] = [{ role: 'system', content: 'S' }];
    expect(prompt(refusing, { messages: alone })).toBe('[user: S]');
  });
});

describe('an answer that the request begins', () => {
  const turns =
    '{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n{% endfor %}' +
    '{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}';
  const begun = (content: string, variables?: Record<string, unknown>) =>
    prepared(turns, {
      messages: [
        { role: 'user', content: 'Count <|im_end|>.' },
        { role: 'assistant', content },
      ],
      ...(variables && { variables }),
    });

  it('is continued, without the end of its message', () => {
    const { prompt, ids } = begun('One, <|im_end|> two');
    expect(prompt).toBe(
      '<|im_start|>user\nCount <|im_end|>.<|im_end|>\n<|im_start|>assistant\nOne, <|im_end|> two',
    );
    expect(ids.filter((id) => id === 151_645)).toHaveLength(1);
    expect(tokenizer.decode(ids, false)).toBe(prompt);
  });

  it.each(['im', '<', '|', 'end', '_'])(
    'is continued where the end of its message has the same text: %s',
    (content) => {
      expect(begun(content).prompt).toMatch(new RegExp(`assistant\\n[${content}]{${content.length}}$`));
    },
  );

  it('ends with its own white space where the template keeps that', () => {
    expect(begun(' One, ').prompt).toMatch(/assistant\nOne,$/);
    const keeps = '{% for m in messages %}{{ m.content }};{% endfor %}';
    const messages: ChatMessage[] = [{ role: 'assistant', content: ' One, ' }];
    expect(prompt(keeps, { messages })).toBe(' One, ');
  });

  it('is followed by another one where it is empty or the request says so', () => {
    expect(begun(' ').prompt).toMatch(/<\|im_end\|>\n<\|im_start\|>assistant\n$/);
    expect(begun('One', { add_generation_prompt: true }).prompt).toMatch(
      /One<\|im_end\|>\n<\|im_start\|>assistant\n$/,
    );
  });

  it('is refused where the template does not write it', () => {
    const messages: ChatMessage[] = [{ role: 'assistant', content: 'One' }];
    expect(() => prompt('{{ messages | length }}', { messages })).toThrow(/does not write the last message/);
  });
});

it('calls of Kimi have ids with their names', () => {
  const call = (id: string, name: string) => ({
    id,
    type: 'function' as const,
    function: { name, arguments: '{}' },
  });
  const messages: ChatMessage[] = [
    { role: 'assistant', content: '', tool_calls: [call('call_1', 'f'), call('call_2', 'g')] },
    { role: 'tool', tool_call_id: 'call_2', content: 'r' },
  ];
  const written = prompt(CALL_TEMPLATES.kimi, { messages });
  expect(written).toContain('<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}');
  expect(written).toContain('<|tool_call_begin|>functions.g:1<');
  expect(written).toContain('## Return of functions.g:1');
});

describe('tools without a description', () => {
  const tools = [{ type: 'function' as const, function: { name: 'f' } }];
  const messages: ChatMessage[] = [{ role: 'user', content: 'a' }];

  it('have an empty one where the template needs it', () => {
    const joins =
      "{% for t in tools or [] %}{{ '// ' + t.function.description + t.function.name }}{% endfor %}";
    expect(prompt(joins, { messages, tools })).toBe('// f');
  });

  it('stay as they are where it does not', () => {
    expect(prompt('{{ tools | tojson }}', { messages, tools })).toBe(
      '[{"type": "function", "function": {"name": "f"}}]',
    );
  });
});
