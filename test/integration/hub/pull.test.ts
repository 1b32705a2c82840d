// A download that is aborted ends at once, whatever it waits for.
import { mkdtempSync, rmSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest';
import { waitForLock } from '../../../src/checkpoint/lock-file.js';
import { locksDirectory } from '../../../src/hub/cache.js';
import { parseHubName } from '../../../src/hub/hub-name.js';
import { pull } from '../../../src/hub/pull.js';
import { blobOf, type Fault, HubServer } from '../../support/hub-server.js';

const REPO = 'org/model';
const FILES = new Map([
  ['config.json', Buffer.from('{"model_type":"olmoe"}')],
  ['model.safetensors', Buffer.alloc(20_000)],
]);

let hub: HubServer;
const cache = mkdtempSync(join(tmpdir(), 'sida-pull-'));
beforeAll(async () => {
  hub = await HubServer.start();
  hub.repos.set(REPO, FILES);
  vi.stubEnv('HF_ENDPOINT', hub.url);
  vi.stubEnv('HF_HUB_CACHE', cache);
});
afterEach(() => hub.reset());
afterAll(async () => {
  vi.unstubAllEnvs();
  await hub.stop();
  rmSync(cache, { recursive: true });
});

const config = (answer: (response: ServerResponse) => void): Fault => {
  return ({ path }, response) => {
    if (!path.endsWith('config.json')) return false;
    answer(response);
    return true;
  };
};
const listing =
  (what: string): Fault =>
  ({ path }) =>
    path.includes(what);

it.each<[string, Fault]>([
  ['the name of a commit', listing('/revision/')],
  ['the list of files', listing('/tree/')],
  ['an answer', config(() => undefined)],
  [
    'more bytes',
    config((response) => void response.writeHead(206, { 'content-range': 'bytes 0-' }).write('{')),
  ],
  ['the next try', config((response) => void response.writeHead(429, { 'retry-after': '60' }).end())],
])('that waits for %s', async (_what, fault) => {
  const reason = new Error('enough');
  const left = new AbortController();
  hub.fault = (asked, response, content) => {
    const faulty = fault(asked, response, content);
    if (faulty) setTimeout(() => left.abort(reason), 100);
    return faulty;
  };
  const options = { onProgress: () => undefined, say: () => undefined, signal: left.signal };
  await expect(pull(parseHubName(REPO)!, options)).rejects.toBe(reason);
});

it('that waits for another download', async () => {
  const left = new AbortController();
  const reason = new Error('enough');
  const path = join(locksDirectory(REPO), `${blobOf(FILES.get('config.json')!)}.lock`);
  const lock = await waitForLock(path, { shared: false });
  const options = { onProgress: () => undefined, say: () => undefined, signal: left.signal };
  setTimeout(() => left.abort(reason), 500);
  await expect(pull(parseHubName(REPO)!, options)).rejects.toBe(reason);
  lock.release();
});
