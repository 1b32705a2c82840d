// What decides an answer changes beside a cached pack, or differs between workers.
import { createHash } from 'node:crypto';
import { closeSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect } from 'vitest';
import { FileHashes, HASHES } from '../../src/checkpoint/file-hashes.js';
import { addTask, changeTokenizer, copyModel, swapWeights } from '../support/changed-model.js';
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
let packs: string;
let running: { stop(): Promise<unknown> }[];
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'sida-identity-'));
  packs = join(root, 'packs');
  running = [];
});
afterEach(async () => {
  await Promise.all(running.map((each) => each.stop()));
  rmSync(root, { recursive: true, force: true });
});

async function serve(model: string, packDir = packs, ...more: string[]) {
  const server = await ServerProcess.start(['--model', model, '--pack-dir', packDir, ...SMALL, ...more]);
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

const about = async (server: ServerProcess) => (await server.get('/v1/models')).body.data[0];
/** The files of experts in the cache, each once. */
const expertFiles = () => [
  ...new Set(
    readdirSync(packs, { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('experts.sida'))
      .map((name) => statSync(join(packs, name)).ino),
  ),
];

fault('the tokenizer is changed beside a cached pack', async ({ note }) => {
  const model = copyModel(join(root, 'model'));
  const server = await serve(model);
  const [right, before] = [await answers(server), await about(server)];
  changeTokenizer(model);
  // A crash is no reason to answer differently.
  process.kill(server.enginePids()[0]!, 'SIGKILL');
  await server.until(async () => (await server.get('/health/ready')).status === 503);
  await server.ready(30_000);
  expect(await answers(server)).toBe(right);
  expect((await about(server)).fingerprint).toBe(before.fingerprint);
  await server.stop();
  const next = await serve(model);
  const after = await about(next);
  expect(after.fingerprint).not.toBe(before.fingerprint);
  expect(after.identity).toEqual({ ...before.identity, tokenizer: after.identity.tokenizer });
  const other = await answers(next);
  expect(other).toBe(await golden(model));
  expect(other).not.toBe(right);
  expect(expertFiles()).toHaveLength(1);
  note('two tokenizers, the weights packed once');
});

fault('a task is added beside a cached pack, and experts are packed as int8', async ({ note }) => {
  const model = copyModel(join(root, 'model'), { predictor: true });
  const server = await serve(model);
  const [right, before] = [await answers(server), await about(server)];
  await server.stop();
  const files = expertFiles();
  addTask(model);
  const next = await serve(model);
  const after = await about(next);
  expect(Object.keys(after.tasks)).toContain('mood');
  expect(await answers(next)).toBe(right);
  expect(expertFiles()).toEqual(files);
  expect(after.identity).toEqual({ ...before.identity, tasks: after.identity.tasks });
  expect(after.fingerprint).not.toBe(before.fingerprint);
  await next.stop();
  const rounded = await serve(model, packs, '--experts', 'int8');
  expect((await about(rounded)).identity.weights).toBe(before.identity.weights);
  for (const { output } of [server, next, rounded]) expect(output).not.toMatch(/was made for|may be poorer/);
  note('no warning of the predictor in three starts');
});

fault('weights are swapped under equal size and modification time', async ({ note }) => {
  const model = copyModel(join(root, 'model'), { predictor: true });
  const server = await serve(model);
  const before = await answers(server);
  await server.stop();
  const path = join(model, 'model.safetensors');
  const old = createHash('sha256').update(readFileSync(path)).digest('hex');
  swapWeights(model);
  // As after a write through a memory map, which may leave even the change time as it was: the old hash seems known.
  const hashes = FileHashes.open(packs);
  const fd = openSync(path, 'r');
  hashes.record(fd, old);
  expect(hashes.known(fd)).toBe(old);
  closeSync(fd);
  await hashes.save();
  expect(readFileSync(join(packs, HASHES), 'utf8')).toContain(`:${statSync(path).ino}:`);
  const right = await golden(model);
  expect(right).not.toBe(before);
  const next = await serve(model);
  expect(await answers(next)).toBe(right);
  expect(next.output).toMatch(
    /was made for other weights: it names switch-mini with weights [0-9a-f]{64}, this/,
  );
  note('the answers are those of the new weights, though hashes.json has the old hash for them');
});

fault('two workers with different tokenizers on one Redis, 40 equal requests', async ({ note }) => {
  const redis = await RedisServer.start();
  try {
    const [model, other] = [copyModel(join(root, 'right')), copyModel(join(root, 'other'))];
    changeTokenizer(other);
    const [right, wrong] = [await golden(model), await golden(other)];
    expect(wrong).not.toBe(right);
    const shared = ['--redis', redis.url];
    const worker = async (directory: string) => {
      const flags = ['--model', directory, '--pack-dir', packs, ...SMALL, ...shared];
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
