// What commands show on a terminal.
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, describe, expect, it } from 'vitest';
import { makeChatModel, SLOW } from '../../support/chat-model.js';
import { hasTerminals, screenOf, Terminal } from '../../support/pty.js';

/** The prompt, and the line editor's movement behind it. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the terminal gets those
const AT_PROMPT = /> (\u001b\[\d*[A-Z])*$/;

const folder = mkdtempSync(join(tmpdir(), 'sida-terminal-'));
afterAll(() => rmSync(folder, { recursive: true }));

describe.skipIf(!hasTerminals)('sida serve on a terminal', () => {
  it('logs for people, above its progress bars, without polls and probes', async () => {
    const models = ['models/switch-mini', 'models/olmoe-mini'];
    const terminal = new Terminal(['serve', ...models, '--port', '0', '--pack-dir', folder]);
    await terminal.shows('Try them:');
    const url = /http:\/\/127\.0\.0\.1:\d+/.exec(terminal.output)![0];
    for (const path of ['/health/ready', '/v1/models', '/none']) await fetch(url + path);
    await terminal.shows('/none');
    terminal.type('\u0003');
    expect(await terminal.exit).toBe(0);
    const { screen } = terminal;
    expect(screen).toContainEqual(expect.stringMatching(/^\d\d:\d\d:\d\d olmoe-mini {2}loading the model$/));
    expect(screen.filter((line) => /"level"|\}$/.test(line) && !line.includes('curl'))).toEqual([]);
    // A bar has a line of its own.
    const bars = screen.filter((line) => /[█░]/.test(line));
    expect(bars.length).toBeGreaterThan(0);
    for (const line of bars) expect(line).toMatch(/^[A-Z][a-z ]+ [█░]+ \d+ %[^{}]*$/);
    const requests = screen.filter((line) => line.includes('GET '));
    expect(requests).toEqual([expect.stringMatching(/^\d\d:\d\d:\d\d {2}GET \/none 404 in [\d.]+ ms/)]);
  });
});

describe.skipIf(!hasTerminals)('sida chat on a terminal', () => {
  const { model, remove } = makeChatModel();
  afterAll(remove);
  const state = join(folder, 'state');
  const chat = (...flags: string[]) =>
    new Terminal(['chat', model, '--pack-dir', folder, ...flags], { XDG_STATE_HOME: state });
  const file = join(state, 'sida', 'chat-history');
  /** Types keys, and waits until the next prompt. */
  const say = async (terminal: Terminal, ...keys: string[]) => {
    const from = terminal.output.length;
    for (const key of keys) {
      terminal.type(key);
      // Keys that come together are a paste for the line editor.
      await delay(50);
    }
    await terminal.shows('\n', from);
    await terminal.shows(AT_PROMPT, from);
    return screenOf(terminal.output.slice(from));
  };

  it('edits lines, and finds those of earlier chats', async () => {
    const flags = ['--max-tokens', '4', '--temperature', '0'];
    const first = chat(...flags);
    await first.shows('/help lists commands');
    expect(first.screen.filter((line) => line.includes('context 512 tokens'))).toHaveLength(1);
    await first.shows(AT_PROMPT);
    const [, answer] = await say(first, 'Helo', '\u001b[D', 'l', '\r');
    expect((await say(first, '/clear\r'))[1]).toBe('A new conversation begins');
    // Arrow up twice.
    const again = await say(first, '\u001b[A', '\u001b[A', '\r');
    expect([again[0], again[1]]).toEqual([expect.stringMatching(/Hello$/), answer]);
    first.type('\u0004');
    expect(await first.exit).toBe(0);
    expect(readFileSync(file, 'utf8')).toBe('Hello\n/clear\nHello\n');
    expect(statSync(file).mode & 0o777).toBe(0o600);

    const second = chat(...flags);
    await second.shows(AT_PROMPT);
    expect((await say(second, '\u001b[A\r'))[1]).toBe(answer);
    second.type('/bye\r');
    expect(await second.exit).toBe(0);
  });

  it('ends an answer, not the conversation, at Ctrl-C', async () => {
    const terminal = chat(...SLOW, '--max-tokens', '400');
    await terminal.shows(AT_PROMPT);
    const from = terminal.output.length;
    terminal.type('Hello\r');
    await terminal.shows(/Hello\r+\n./s, from);
    await say(terminal, '\u0003');
    const stats = await say(terminal, '/stats\r');
    expect(stats[1]).toBe('Nothing has been answered yet');
    // At the prompt it clears the line.
    expect((await say(terminal, 'x\u0003')).join()).not.toContain('sida:');
    // In a message of several lines it leaves all of them out.
    terminal.type('"""one\r');
    await terminal.shows('\u001b[0J. ');
    await say(terminal, 'two', '\u0003');
    expect((await say(terminal, '/set max_tokens 2\r'))[1]).toBe('max_tokens 2');
    terminal.type('\u0004');
    expect(await terminal.exit).toBe(0);
  });
});
