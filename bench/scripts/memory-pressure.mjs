// Shows --memory-pressure yield: a server and another program share a memory cgroup that has no room for both.
//   node bench/scripts/memory-pressure.mjs
// Needs root. Prints the budget second by second. Fails when an answer has other bits, when anything is killed, when
// the budget does not shrink, or when it does not come back.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { MemoryCgroup } from '../dist/support/memory-cgroup.js';
import { scratchDirectory, words } from '../dist/support/script.js';
import { ServeProcess } from '../dist/support/serve-process.js';

const MIB = 2 ** 20;
const LIMIT = 1600 * MIB;
const OTHER = 640;
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

const folder = scratchDirectory();
const [config, pack] = ['config.json', 'pack'].map((name) => join(folder, name));
const group = new MemoryCgroup(LIMIT);
let server;
let other;

const answer = async () => JSON.stringify((await server.post('/v1/completions', REQUEST)).choices);

async function budget() {
  const { device, kept } = await (await fetch(`${server.url}/admin/budget`)).json();
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

try {
  writeFileSync(config, JSON.stringify(SHAPE));
  execFileSync(
    'node',
    words`bench/scripts/make-random-pack.mjs --config ${config} --out ${pack} --experts int8`,
  );
  const flags = words`--model ${pack} --context 512 --memory-budget 100% --memory-pressure yield --log-level warn`;
  server = await ServeProcess.start(flags, { through: group.through });
  const golden = await answer();
  const { mib: most } = await watch('before', 1, undefined, golden);
  // It takes 32 MiB every tenth of a second, and holds them.
  const takes = `const all = []; setInterval(() => all.length < ${OTHER / 32} && all.push(Buffer.alloc(2 ** 25, 1)), 100)`;
  const [command, ...args] = [...group.through, process.execPath, '-e', takes];
  other = spawn(command, args, { stdio: 'inherit' });
  await watch(
    'another program allocates',
    30,
    ({ mib, by }) => by === 'pressure' && mib < 0.75 * most,
    golden,
  );
  await watch('and takes the rest', 4, undefined, golden);
  const held = await budget();
  await watch('and holds it', 10, undefined, golden);
  assert.deepEqual(await budget(), held);
  assert.equal(other.exitCode ?? other.signalCode, null, 'the other program was killed');
  other.kill();
  await watch('it is gone', 120, ({ mib, by }) => mib === most && by === null, golden);
  console.log('equal answers before, during and after; nothing was killed');
} finally {
  if (other?.exitCode === null && other.signalCode === null) {
    other.kill();
    await new Promise((ended) => other.once('exit', ended));
  }
  await server?.stop();
  await group.remove();
}
