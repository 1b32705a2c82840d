// Shows --memory-pressure yield: a server and another program share a memory cgroup that has no room for both.
//   node bench/scripts/memory-pressure.mjs
// Needs root. Prints the budget second by second. Fails when an answer has other bits, when anything is killed, when
// the budget does not shrink, or when it does not come back.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

const MIB = 2 ** 20;
const LIMIT = 1600 * MIB;
const OTHER = 640;
const PORT = 8378;
const SERVER = `http://127.0.0.1:${PORT}`;
const SHAPE = {
  ...JSON.parse(readFileSync('bench/scripts/shapes/olmoe-7b.json', 'utf8')),
  ...{
    vocab_size: 2048,
    eos_token_id: 2047,
    hidden_size: 1024,
    intermediate_size: 512,
    num_hidden_layers: 6,
  },
};
const REQUEST = { prompt: [11, 7, 5, 3], max_tokens: 12, temperature: 0, logprobs: 1 };

const folder = mkdtempSync(join(tmpdir(), 'sida-pressure-'));
const group = cgroup();
const within = (command, ...args) =>
  spawn('sh', ['-c', `echo $$ > ${group}/cgroup.procs; exec "$0" "$@"`, command, ...args], {
    stdio: ['ignore', 'inherit', 'inherit'],
  });

/** A new group below the memory cgroup of version 1 or 2. */
function cgroup() {
  const v1 = '/sys/fs/cgroup/memory';
  const old = existsSync(v1);
  const path = join(old ? v1 : '/sys/fs/cgroup', `sida-pressure-${process.pid}`);
  mkdirSync(path);
  writeFileSync(join(path, old ? 'memory.limit_in_bytes' : 'memory.max'), String(LIMIT));
  console.log(`cgroup of version ${old ? 1 : 2}, ${LIMIT / MIB} MiB`);
  return path;
}

async function answer() {
  const init = {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(REQUEST),
  };
  const reply = await fetch(`${SERVER}/v1/completions`, init);
  const text = await reply.text();
  assert.equal(reply.status, 200, text);
  return JSON.stringify(JSON.parse(text).choices);
}

async function budget() {
  const { device, kept } = await (await fetch(`${SERVER}/admin/budget`)).json();
  return { mib: Math.round(device.budget_bytes / MIB), by: kept.by };
}

const started = performance.now();
async function watch(what, seconds, until, golden) {
  let now = await budget();
  for (let second = 0; second < seconds && !until?.(now); second += 1) {
    assert.equal(await answer(), golden);
    console.log(`${Math.round((performance.now() - started) / 1000)} s  ${what}: ${JSON.stringify(now)}`);
    await delay(1000);
    now = await budget();
  }
  assert(until?.(now) ?? true, `${what}: the budget is ${JSON.stringify(now)}`);
  return now;
}

let server;
let other;
try {
  writeFileSync(join(folder, 'config.json'), JSON.stringify(SHAPE));
  const pack = ['--config', join(folder, 'config.json'), '--out', join(folder, 'pack')];
  execFileSync(process.execPath, ['bench/scripts/make-random-pack.mjs', ...pack, '--experts', 'int8']);
  const options = `--port ${PORT} --context 512 --memory-budget 100% --memory-pressure yield --log-level warn`;
  server = within(process.execPath, 'dist/cli/main.js', 'serve', join(folder, 'pack'), ...options.split(' '));
  for (let tries = 0; !(await fetch(`${SERVER}/health/ready`).catch(() => undefined))?.ok; tries += 1) {
    assert(tries < 600 && server.exitCode === null, 'the server did not become ready');
    await delay(100);
  }
  const golden = await answer();
  const { mib: most } = await watch('before', 1, undefined, golden);
  // It takes 32 MiB every tenth of a second, and holds them.
  const takes = `const all = []; setInterval(() => all.length < ${OTHER / 32} && all.push(Buffer.alloc(2 ** 25, 1)), 100)`;
  other = within(process.execPath, '-e', takes);
  const yielded = ({ mib, by }) => by === 'pressure' && mib < 0.75 * most;
  await watch('another program allocates', 30, yielded, golden);
  await watch('and takes the rest', 4, undefined, golden);
  const held = await budget();
  await watch('and holds it', 10, undefined, golden);
  assert.deepEqual(await budget(), held);
  assert.equal(other.exitCode ?? other.signalCode, null, 'the other program was killed');
  other.kill();
  await watch('it is gone', 120, ({ mib, by }) => mib === most && by === null, golden);
  assert.equal(server.exitCode ?? server.signalCode, null, 'the server was killed');
  console.log('equal answers before, during and after; nothing was killed');
} finally {
  for (const child of [other, server])
    if (child !== undefined && child.exitCode === null && child.signalCode === null) {
      child.kill();
      await new Promise((ended) => child.once('exit', ended));
    }
  rmSync(folder, { recursive: true });
  await delay(500);
  rmdirSync(group);
}
