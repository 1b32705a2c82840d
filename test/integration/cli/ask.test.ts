// `sida ask` and `sida chat` as processes.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { makeChatModel } from '../../support/chat-model.js';
import { REPO } from '../../support/sida-process.js';

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
  const main = join(REPO, 'dist/cli/main.js');
  const child = spawn(process.execPath, [main, ...args, '--pack-dir', packs], {
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

it('needs no options of a server', async () => {
  const env = { SIDA_HOST: '0.0.0.0', SIDA_WORKER: 'none' };
  expect(await sida(['ask', model, 'Hello', ...SETTINGS], '', env)).toMatchObject({ code: 0 });
});

it('names a setting that is wrong, and a model without a template', async () => {
  const wrong = await sida(['ask', model, 'Hello', '--temperature', '7']);
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('temperature')]);
  for (const flags of [
    ['--temperature', ''],
    ['--seed', '0x10'],
    ['--max-tokens', '1.5'],
  ]) {
    // Before the model is opened, which is not there.
    const early = await sida(['ask', join(packs, 'none'), 'Hello', ...flags]);
    expect([early.code, early.stderr]).toEqual([2, expect.stringContaining(`"${flags[0]}" option to be a`)]);
  }
  const bare = await sida(['ask', join(REPO, 'models/switch-mini'), 'Hello']);
  expect([bare.code, bare.stderr]).toEqual([1, expect.stringContaining('no chat template')]);
});
