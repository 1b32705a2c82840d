import { execFileSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import {
  asCode,
  type Conversation,
  loadConversations,
  retitled,
  storeConversations,
  titleOf,
  wireMessages,
} from '../../../src/page/conversations.js';

const conversation = (id: string, changedMs: number, content = 'Hello!'): Conversation => ({
  ...{ id, title: id, changedMs, settings: { system: '' } },
  messages: content === '' ? [] : [{ role: 'user', content }],
});

/** Storage with room for some characters. */
class Room {
  text: string | null = null;
  readonly #most: number;
  constructor(most = 1e6) {
    this.#most = most;
  }
  getItem = () => this.text;
  setItem = (_: string, value: string) => {
    if (value.length > this.#most) throw new Error('QuotaExceededError');
    this.text = value;
  };
}

describe('stored conversations', () => {
  it('are the last ones that have messages', () => {
    const storage = new Room();
    storeConversations(
      [conversation('old', 1), conversation('empty', 3, ''), conversation('new', 2)],
      storage,
    );
    expect(loadConversations(storage)!.map(({ id }) => id)).toEqual(['new', 'old']);
  });

  it('are fewer where the storage is full, and none where it holds something else', () => {
    const storage = new Room(150);
    storeConversations([conversation('old', 1), conversation('new', 2)], storage);
    expect(loadConversations(storage)!.map(({ id }) => id)).toEqual(['new']);
    storage.text = '{"no": "list"}';
    expect(loadConversations(storage)).toEqual([]);
    storage.text = '[null, {}, {"id": "x", "title": "x", "settings": {"system": ""}, "messages": [null]}]';
    expect(loadConversations(storage)).toEqual([]);
    storage.text = 'no JSON';
    expect(loadConversations(storage)).toEqual([]);
  });
});

it('knows a browser that stores nothing', () => {
  const getItem = () => {
    throw new Error('SecurityError');
  };
  expect(loadConversations({ getItem })).toBeUndefined();
});

it('keeps the name that a person gave', () => {
  const asked = { ...conversation('a', 1), title: 'Hello!' };
  expect(retitled(asked, [], 'Other')).toBe('Other');
  expect(retitled(asked, asked.messages, 'Other')).toBe('Hello!');
  expect(retitled({ ...asked, title: 'Mine' }, [], 'Other')).toBe('Mine');
});

it('sends the system prompt first, and no empty answers', () => {
  const settings = { system: ' Be brief. ' };
  const messages = [
    { role: 'user' as const, content: 'One' },
    { role: 'assistant' as const, content: '', error: 'broken' },
  ];
  expect(wireMessages({ settings, messages })).toEqual([
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'One' },
  ]);
});

it('names a conversation by its first words', () => {
  expect(titleOf('  Two\nlines')).toBe('Two');
  expect(titleOf('x'.repeat(41))).toBe(`${'x'.repeat(39)}…`);
});

describe('a request as a program', () => {
  const body = {
    model: 'm',
    messages: [{ role: 'user', content: `it's ": true, "null` }],
    stream: true,
    stop: null,
  };

  it('quotes for the shell', () => {
    const command = asCode('curl', 'http://x', body).replace(/^curl/, 'printf "%s\\n"');
    const [, , , , json] = execFileSync('sh', ['-c', command], { encoding: 'utf8' }).split(
      /\n(?=http|-H|content|-d|\{)/,
    );
    expect(JSON.parse(json!)).toEqual(body);
  });

  it('writes literals of Python', () => {
    const text = asCode('Python', 'http://x', body);
    expect(text).toContain(`"content": "it's \\": true, \\"null"`);
    expect(text).toContain('"stream": True, "stop": None');
    expect(asCode('JavaScript', 'http://x', body)).toContain('"stream": true');
  });
});
