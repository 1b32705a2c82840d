// `sida ask` and `sida chat` as processes.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { visible } from '../../../src/text/visible.js';
import { makeChatModel } from '../../support/chat-model.js';
import { REPO, ServerProcess } from '../../support/server-process.js';
import { EXACT_HALF } from '../../support/sida-process.js';

const { model, remove } = makeChatModel();
const packs = mkdtempSync(join(tmpdir(), 'sida-ask-'));
afterAll(() => {
  remove();
  rmSync(packs, { recursive: true, force: true });
});

interface Ended {
  code: number | null;
  stdout: string;
  stderr: string;
}

function sida(args: string[], input = '', env: NodeJS.ProcessEnv = {}): Promise<Ended> {
  return run([...args, '--pack-dir', packs], input, env);
}

function run(args: string[], input = '', env: NodeJS.ProcessEnv = {}): Promise<Ended> {
  const main = join(REPO, 'bundle/cli/main.js');
  const child = spawn(process.execPath, [main, ...args], {
    env: { ...process.env, ...env },
    timeout: 120_000,
  });
  const ended: Ended = { code: null, stdout: '', stderr: '' };
  child.stdout.on('data', (data) => {
    ended.stdout += String(data);
  });
  child.stderr.on('data', (data) => {
    ended.stderr += String(data);
  });
  child.stdin.end(input);
  return new Promise((resolve) => child.once('close', (code) => resolve({ ...ended, code })));
}

const shown = (answer: string) => `${answer.split('\n').map(visible).join('\n')}\n`;

const SETTINGS = ['--max-tokens', '12', '--temperature', '1', '--seed', '7'];

it('answers a question, and the same one with the same seed', async () => {
  const first = await sida(['ask', model, 'Hello', ...SETTINGS]);
  expect(first).toMatchObject({ code: 0, stdout: expect.stringMatching(/.\n$/s) });
  expect((await sida(['ask', model, 'Hello', ...SETTINGS])).stdout).toBe(first.stdout);
  const conversation = await sida(['chat', model, ...SETTINGS], 'Hello\n\nAnd then?\n');
  expect(conversation.code).toBe(0);
  expect(conversation.stdout.startsWith(first.stdout)).toBe(true);
  expect(conversation.stdout.length).toBeGreaterThan(first.stdout.length);
});

it('goes on after a turn that is too long', async () => {
  const input = `${'Hello '.repeat(4_000)}\nHello\n`;
  const { code, stdout, stderr } = await sida(['chat', model, ...SETTINGS], input);
  const alone = await sida(['chat', model, ...SETTINGS], 'Hello\n');
  expect([code, stdout]).toEqual([1, alone.stdout]);
  expect(stderr).toContain('tokens');
});

it('names a setting that is wrong', async () => {
  const wrong = await sida(['ask', model, 'Hello', '--temperature', '7']);
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('temperature')]);
  for (const flags of [['--temperature', '']]) {
    // Before the model is opened, which is not there.
    const early = await sida(['ask', join(packs, 'none'), 'Hello', ...flags]);
    expect([early.code, early.stderr]).toEqual([2, expect.stringContaining(`"${flags[0]}" option to be a`)]);
  }
});

it.each(['ask', 'chat'])('%s refuses a model without a template before it is loaded', async (command) => {
  const bare = await sida([command, join(REPO, 'models/switch-mini')], 'Hello\n');
  expect(bare).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringMatching(/^sida: .*no chat template/),
  });
  const none = await sida([command, join(packs, 'none')], 'Hello\n');
  expect([none.code, none.stderr]).toEqual([4, expect.stringContaining('none: no such file or directory')]);
});

it('takes the question from unquoted words, and from standard input', async () => {
  const { stdout } = await sida(['ask', model, 'Hello you', ...SETTINGS]);
  expect((await sida(['ask', model, 'Hello', 'you', ...SETTINGS])).stdout).toBe(stdout);
  for (const words of [[], ['-']])
    expect((await sida(['ask', model, ...words, ...SETTINGS], 'Hello you\n')).stdout).toBe(stdout);
});

it.each([[['-']]])('refuses an empty question: %j', async (words) => {
  const { code, stderr } = await sida(['ask', model, ...words]);
  expect([code, stderr]).toEqual([2, 'sida: The question is empty\n']);
});

it('prints the answer as the HTTP API gives it', async () => {
  const { stdout } = await sida(['ask', model, 'Hello', ...SETTINGS]);
  const { code, stdout: json } = await sida(['ask', model, 'Hello', '--json', ...SETTINGS]);
  const { choices, usage } = JSON.parse(json);
  expect([code, shown(choices[0].message.content)]).toEqual([0, stdout]);
  expect(usage.completion_tokens).toBe(12);
});

it('tells what the answer would cost, and asks nothing', async () => {
  const { code, stdout } = await sida(['ask', model, 'Hello', '--quote', ...SETTINGS]);
  expect(code).toBe(0);
  expect(stdout).toMatch(
    /^ +50 % +90 %\nexperts needed +[\d,]+ +[\d,]+\nbytes to move .*\nfirst token .* s\nwhole answer /,
  );
  expect(stdout).toContain('up to 12 of answer; nothing was measured yet');
});

it('obeys commands, and says messages of several lines', async () => {
  const told = (input: string) => sida(['chat', model, ...SETTINGS], input);
  const alone = (await told('Hello\n')).stdout;
  expect(await told('/clear\nHello\n/clear\nHello\n')).toMatchObject({
    code: 0,
    stdout: `A new conversation begins\n${alone}A new conversation begins\n${alone}`,
  });
  const lines = (await told('"""one\ntwo"""\n')).stdout;
  expect((await told('one\\\ntwo\n')).stdout).toBe(lines);
  expect(lines).not.toBe((await told('one\n')).stdout);
  const system = await told('/system Be brief\nHello\n');
  expect(system.stdout.startsWith('Be brief\n')).toBe(true);
  expect(system.stdout).toBe(
    `Be brief\n${(await sida(['chat', model, ...SETTINGS, '--system', 'Be brief'], 'Hello\n')).stdout}`,
  );
  const set = await told('/set max-tokens 3\nHello\n/stats\n/bye\nHello\n');
  expect(set.code).toBe(0);
  expect(set.stdout).toMatch(
    /^max_tokens 3\n(.*\n){5}.*\nlast answer {2}3 tokens · .*\ncontext +\d+ of \d+ tokens/s,
  );
  expect(set.stdout).toMatch(/3 completion tokens\n$/);
});

describe('--url', () => {
  let server: ServerProcess;
  beforeAll(async () => {
    server = await ServerProcess.start([model, '--api-key', 'secret-of-the-server']);
  });
  afterAll(() => server.stop());
  const env = { SIDA_API_KEY: 'secret-of-the-server' };
  const remote = (args: string[], input = '', more = env) => {
    const main = [args[0]!, ...args.slice(1), '--url', server.url, ...SETTINGS];
    return run(main, input, more);
  };

  it('asks a running server, which gives the same answers', async () => {
    const local = await sida(['ask', model, 'Hello', ...SETTINGS, ...EXACT_HALF]);
    expect(await remote(['ask', model, 'Hello'])).toEqual({ code: 0, stdout: local.stdout, stderr: '' });
    expect((await remote(['ask'], 'Hello')).stdout).toBe(local.stdout);
    const quoted = await remote(['ask', 'Hello you']);
    expect(quoted).toMatchObject({ code: 0, stderr: '' });
    expect(quoted.stdout).toBe((await remote(['ask', model, 'Hello', 'you'])).stdout);
    const json = JSON.parse((await remote(['ask', 'chat-tiny', 'Hello', '--json'])).stdout);
    expect(shown(json.choices[0].message.content)).toBe(local.stdout);
    const chat = await remote(['chat'], 'Hello\n/stats\n');
    expect(chat).toMatchObject({ code: 0, stderr: '' });
    expect(chat.stdout.startsWith(`${local.stdout}last answer  12 tokens · `)).toBe(true);
  });

  it('asks a server for a quote', async () => {
    await remote(['ask', 'Hello you']);
    const quote = JSON.parse((await remote(['ask', 'Hello you', '--quote', '--json'])).stdout);
    expect(quote).toMatchObject({ object: 'quote', model: 'chat-tiny', max_tokens: 12 });
    const { stdout } = await remote(['ask', 'Hello you', '--quote']);
    expect(stdout).toContain(`${quote.prompt_tokens} tokens of prompt, up to 12 of answer; measured on`);
  });

  it('names what is wrong', async () => {
    const wrong = await remote(['ask', 'chat-tyni', 'Hello']);
    expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('did you mean chat-tiny?')]);
    const noKey = await remote(['chat'], 'Hello\n', { SIDA_API_KEY: '' });
    expect([noKey.code, noKey.stderr]).toEqual([1, expect.stringContaining('SIDA_API_KEY holds the key')]);
    const budget = await remote(['ask', '--memory-budget', '1GiB', 'chat-tiny', 'Hello']);
    expect([budget.code, budget.stderr]).toEqual([2, expect.stringContaining('leave out')]);
    const nothing = await run(['ask', '--url', 'http://127.0.0.1:9', 'm', 'Hello']);
    expect([nothing.code, nothing.stderr]).toEqual([1, 'sida: http://127.0.0.1:9: nothing listens there\n']);
    const url = await run(['chat', '--url', 'localhost:8080']);
    expect([url.code, url.stderr]).toEqual([2, expect.stringContaining('"--url" option to be')]);
    const neither = await run(['ask']);
    expect([neither.code, neither.stderr]).toEqual([2, expect.stringContaining('The model is missing')]);
  });
});
