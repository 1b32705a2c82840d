// The key file of a running server. The server reloads it on SIGHUP and on changes, and ignores an invalid one.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { hashKey, newApiKey } from '../../../src/access/api-key.js';
import { keyLine } from '../../../src/access/key-file.js';
import { type Answer, ask } from '../../support/http-client.js';
import { MINI, ServerProcess } from '../../support/server-process.js';

const folder = mkdtempSync(join(tmpdir(), 'sida-keys-'));
const file = join(folder, 'keys');
const [first, second, third] = [newApiKey(), newApiKey(), newApiKey()];
const line = (name: string, key: string) => keyLine({ name, scopes: ['infer'], hash: hashKey(key) });

let server: ServerProcess;
beforeAll(async () => {
  writeFileSync(file, line('ci', first), { mode: 0o600 });
  server = await ServerProcess.start(['--model', MINI, '--memory-budget', '50%', '--api-keys', file]);
});
afterAll(async () => {
  expect(await server.stop()).toBe(0);
  rmSync(folder, { recursive: true });
});

const port = () => Number(new URL(server.url).port);
const classify = (key: string): Promise<Answer> =>
  ask(port(), '/v1/classify', {
    method: 'POST',
    headers: { authorization: `Bearer ${key}` },
    body: { task: 'sst2', input: 'a fine film' },
  });
const statuses = async (...keys: string[]) =>
  Promise.all(keys.map(async (key) => (await classify(key)).status));

it('accepts a replaced key on SIGHUP, and refuses the old one', async () => {
  expect(await statuses(first, second)).toEqual([200, 401]);
  writeFileSync(file, line('ci', second), { mode: 0o600 });
  server.child.kill('SIGHUP');
  await server.until(async () => (await classify(second)).status === 200);
  expect(await statuses(first, second)).toEqual([401, 200]);
});

it('keeps its keys when the file is invalid, and logs why without the file’s content', async () => {
  writeFileSync(file, 'ci infer sida_in-the-clear', { mode: 0o600 });
  server.child.kill('SIGHUP');
  await server.until(() => server.output.includes('the API keys stay as they were'));
  expect(server.output).toMatch(/line 1: expected sha256:/);
  expect(server.output).not.toContain('in-the-clear');
  expect(await statuses(second)).toEqual([200]);
});

it('reloads a changed file without a signal', async () => {
  writeFileSync(file, `${line('ci', second)}\n${line('cd', third)}\n`, { mode: 0o600 });
  await server.until(async () => (await classify(third)).status === 200);
  expect(await statuses(first, second, third)).toEqual([401, 200, 200]);
});
