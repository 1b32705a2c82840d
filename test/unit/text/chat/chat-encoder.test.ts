import { describe, expect, it } from 'vitest';
import { ChatEncoder } from '../../../../src/text/chat/chat-encoder.js';
import { ChatTemplate } from '../../../../src/text/chat/chat-template.js';
import { unusedMark } from '../../../../src/text/chat/marked-strings.js';
import { callsOf } from '../../../support/counted-calls.js';
import { openQwen3 } from './qwen3.js';

const { tokenizer, encoder, cases } = openQwen3();

const conversation = (...messages: object[]) => JSON.stringify({ messages, add_generation_prompt: true });
const user = (content: string) => ({ role: 'user', content });

describe('conversations that transformers rendered', () => {
  const inputs = cases.map(({ rendered, ids, ...input }) => ({
    json: JSON.stringify({ add_generation_prompt: true, ...input }),
    rendered,
    ids,
    // transformers lets a user write control tokens.
    plain: !input.messages.some(({ role, content }) => role === 'user' && content.includes('<|im_')),
  }));

  it.each(inputs)('are the same text, byte for byte: %#', ({ json, rendered }) => {
    expect(encoder.render(json)).toBe(rendered);
  });

  it.each(inputs.filter(({ plain }) => plain))('are the same tokens: %#', ({ json, ids }) => {
    expect(encoder.encode(json)).toEqual(ids);
  });
});

describe('the private character of the marks', () => {
  const FIRST = 0xe000;
  const COUNT = 6_400;
  const privates = (count: number) =>
    Array.from({ length: count }, (_, at) => String.fromCharCode(FIRST + at)).join('');
  const markOf = (...texts: string[]) => unusedMark(texts);

  it('is the first that no text has', () => {
    expect(markOf('', 'a')).toBe('\ue000');
    expect(markOf('a\ue001', '\ue000b')).toBe('\ue002');
    expect(markOf(privates(COUNT - 1))).toBe('\uf8ff');
    expect(markOf(privates(1_000), privates(COUNT))).toBeUndefined();
  });

  it('is found without a search for each that is used', () => {
    const searches: [object, string][] = [
      [String.prototype, 'includes'],
      [String.prototype, 'indexOf'],
      [String.prototype, 'search'],
    ];
    expect(callsOf(searches, () => void markOf(privates(COUNT - 1)))).toBeLessThan(10);
    expect(callsOf([[String.prototype, 'charCodeAt']], () => void markOf(privates(COUNT - 1)))).toBe(
      COUNT - 1,
    );
  });
});

describe('a template', () => {
  const open = (text: string) =>
    new ChatEncoder(
      tokenizer,
      { special: new Set(), others: new Set() },
      { texts: { default: text }, variables: { bos_token: '<s>' } },
    );
  const render = (text: string) => () => open(text).render(conversation(user('hi')));

  it('has the special tokens of the model and the functions of transformers', () => {
    expect(render('{{ bos_token }}{% for i in range(3) %}{{ i }}{% endfor %}')()).toBe('<s>012');
    expect(render("{{ strftime_now('%Y') }}")()).toMatch(/^\d{4}$/);
  });

  it('may refuse the messages, in its own words', () => {
    expect(render("{{ raise_exception('roles must alternate') }}")).toThrow(
      expect.objectContaining({
        code: 'invalid_request',
        message: expect.stringContaining('roles must alternate'),
      }),
    );
  });

  it.each([
    ['makes a long list', '{{ range(100000) }}', /range has more than/],
    [
      'doubles a text',
      "{% set ns = namespace(x='ab') %}{% for a in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}",
      /longer than/,
    ],
    ['indents widely', '{{ messages[0].content | indent(16000000, true) }}', /indents by 16000000/],
    ['writes JSON in wide lines', '{{ messages | tojson(indent=16000000) }}', /indents by 16000000/],
    [
      'indents by a number that it computes',
      '{% set wide = 4000 * 4000 %}{% filter indent(width=wide, first=true) %}a{% endfilter %}',
      /indents by 16000000/,
    ],
    [
      'joins with a long text',
      "{% set ns = namespace(x='ab') %}{% for a in range(20) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ range(900) | join(ns.x) }}",
      /makes a text or a list longer/,
    ],
    [
      'replaces letters by a long text',
      "{% set ns = namespace(x='ab') %}{% for a in range(20) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x.replace('a', ns.x) }}",
      /makes a text or a list longer/,
    ],
    [
      'replaces letters by a long text in a filter',
      "{% set ns = namespace(x='ab') %}{% for a in range(20) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x | replace('b', ns.x) }}",
      /makes a text or a list longer/,
    ],
    ['writes wide JSON', '{{ messages | tojson(indent=400000000) }}', /indents by 400000000/],
    [
      'squares numbers',
      '{% set ns = namespace(x=9) %}{% for a in range(9) %}{% set ns.x = ns.x * ns.x %}{% endfor %}',
      /more than 256 bits/,
    ],
    ['repeats a text', "{{ 'ab' * 16000000 }}", /makes a text or a list longer/],
    ['centres a text', "{{ 'a'.center(16000000) }}", /makes a text or a list longer/],
    ['formats widely', "{{ '%16000000d' % 1 }}", /width of 16000000/],
    [
      'doubles a list within lists',
      '{% set ns = namespace(x=[]) %}{% for a in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}',
      /longer than/,
    ],
    ['uses a filter that does not exist', '{{ messages | nothing }}', /cannot render/],
  ])('is stopped when it %s', (_what, text, reason) => {
    expect(render(text)).toThrow(
      expect.objectContaining({ code: 'cannot_run', message: expect.stringMatching(reason) }),
    );
  });

  it('may replace, join and indent as transformers does', () => {
    const filters = "{{ 'a-b-c'.replace('-', '+').replace('+', '--', 1) | replace('b', 'B') }}";
    expect(render(filters)()).toBe('a--B+c');
    expect(render("{{ range(3) | join(', ') }}{{ 'a\\nb' | indent(2) }}{{ [1] | tojson(indent=1) }}")()).toBe(
      '0, 1, 2a\n  b[\n 1\n]',
    );
  });

  it('is stopped when it takes too many steps', () => {
    const loops = '{% for a in range(100) %}{% for b in range(100) %}{{ b }}{% endfor %}{% endfor %}';
    const bounds = { steps: 1000, length: 1000, total: 100_000 };
    const template = new ChatTemplate(loops, {}, bounds);
    expect(() => template.render({})).toThrow(/more than 1000 steps/);
  });

  it('is stopped when it makes many long texts', () => {
    const bounds = { steps: 10_000, length: 1000, total: 2000 };
    const text = '{% for a in range(50) %}{{ words ~ a }}{% endfor %}';
    const template = new ChatTemplate(text, {}, bounds);
    expect(() => template.render({ words: 'x'.repeat(60) })).toThrow(/longer than 2000 together/);
  });

  it('that cannot be read refuses conversations', () => {
    expect(render('{% for %}')).toThrow(
      expect.objectContaining({ code: 'cannot_run', message: expect.stringContaining('cannot be used') }),
    );
  });
});
