// What decides an answer changes under a running server, or differs between workers.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect } from 'vitest';
import { changeTokenizer, copyModel, swapWeights } from '../support/changed-model.js';
import { eventually } from '../support/eventually.js';
import { RedisServer } from '../support/redis.js';
import { ServerProcess, sst2 } from '../support/server-process.js';
import { WorkerProcess } from '../support/worker-process.js';
import { fault } from './fault.js';

const SENTENCES = sst2()
  .slice(0, 32)
  .map(({ text }) => text);
const SMALL = ['--memory-budget', '100%', '--threads', '1', '--log-level', 'warn'];

let root: string;
let running: { stop(): Promise<unknown> }[];
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'sida-identity-'));
  running = [];
});
afterEach(async () => {
  await Promise.all(running.map((each) => each.stop()));
  rmSync(root, { recursive: true, force: true });
});

async function serve(model: string, packs = join(root, 'packs')): Promise<ServerProcess> {
  const server = await ServerProcess.start(['--model', model, '--pack-dir', packs, ...SMALL]);
  running.unshift(server);
  return server;
}

async function answers(server: ServerProcess): Promise<string> {
  const { status, body } = await server.post('/v1/classify', { task: 'sst2', input: SENTENCES });
  expect(status, JSON.stringify(body)).toBe(200);
  return JSON.stringify(body.data);
}

/** What a server answers that has never seen another content of the model. */
async function golden(model: string): Promise<string> {
  const server = await serve(model, mkdtempSync(join(root, 'golden-')));
  const right = await answers(server);
  await server.stop();
  return right;
}

for (const [what, change, part] of [
  ['the tokenizer is changed', changeTokenizer, 'tokenizer'],
  ['weights are swapped under equal size and modification time', swapWeights, 'weights'],
] as const) {
  fault(`${what} under a running server`, async ({ note }) => {
    const model = copyModel(join(root, 'model'));
    const about = async (of: ServerProcess) => (await of.get('/v1/models')).body.data[0];
    const server = await serve(model);
    const [right, before] = [await answers(server), await about(server)];
    change(model);
    // A crash is no reason to answer differently.
    process.kill(server.enginePids()[0]!, 'SIGKILL');
    await server.until(async () => (await server.get('/health/ready')).status === 503);
    await server.ready(30_000);
    expect([await answers(server), (await about(server)).fingerprint]).toEqual([right, before.fingerprint]);
    await server.stop();
    const next = await serve(model);
    const { identity, fingerprint } = await about(next);
    expect(fingerprint).not.toBe(before.fingerprint);
    expect(identity).toEqual({ ...before.identity, [part]: identity[part] });
    const other = await answers(next);
    expect(other).toBe(await golden(model));
    expect(other).not.toBe(right);
    note(
      'the server answers as before, also after a crash; the next one as one that never saw the old files',
    );
  });
}

fault('two workers with different tokenizers on one Redis, 40 equal requests', async ({ note }) => {
  const redis = await RedisServer.start();
  try {
    const [model, other] = [copyModel(join(root, 'right')), copyModel(join(root, 'other'))];
    changeTokenizer(other);
    const [right, wrong] = [await golden(model), await golden(other)];
    expect(wrong).not.toBe(right);
    const shared = ['--redis', redis.url];
    const worker = async (directory: string) => {
      const flags = ['--model', directory, '--pack-dir', join(root, 'packs'), ...SMALL, ...shared];
      const started = await WorkerProcess.start(flags);
      running.unshift(started);
      return started;
    };
    await worker(model);
    const front = ['--model', 'switch-mini', '--no-worker', '--log-level', 'warn', ...shared];
    const server = await ServerProcess.start(front);
    running.unshift(server);
    const second = await worker(other);
    const told = await Promise.all(Array.from({ length: 40 }, () => answers(server)));
    expect(told.filter((each) => each !== right)).toEqual([]);
    // A server that starts now cannot know which of the two is meant.
    const asking = await ServerProcess.launch(front);
    running.unshift(asking);
    await eventually(async () => {
      const ready = await asking.get('/health/ready').catch(() => undefined);
      return ready?.status === 503 && /which differ in tokenizer \(/.test(String(ready.body?.reason));
    }, 'the reason why it is not ready');
    await second.stop();
    await asking.ready(60_000);
    expect(await answers(asking)).toBe(right);
    note('40 of 40 answers of the right model; a new server names the part that differs');
    await Promise.all(running.map((each) => each.stop()));
  } finally {
    await redis.end();
  }
});
