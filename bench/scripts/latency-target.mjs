// Traces --latency-p95 under steps of load, beside the smallest budget that a sweep finds, and draws it.
//   node bench/scripts/latency-target.mjs
// Writes docs/pictures/latency-target.svg. A simulated link makes loads of experts take the same time on any disk.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { lineChart, renderSvg } from '../dist/report/charts.js';

const MIB = 2 ** 20;
const PORT = 8379;
const SERVER = `http://127.0.0.1:${PORT}`;
const TARGET_MS = Number(process.env.TARGET_MS ?? 60);
/** Clients, one request after the other each. */
const LOADS = [1, 3, 1];
const PHASE_SECONDS = Number(process.env.PHASE_SECONDS ?? 35);
const SWEEP_SECONDS = 3;

let running = 0;
let times = [];
let asked = 0;

async function ask(path, body, method = 'POST') {
  const init = body && {
    method,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  };
  const reply = await fetch(SERVER + path, init);
  const text = await reply.text();
  assert.equal(reply.status, 200, text);
  return text;
}

async function client(own) {
  while (running > own) {
    const began = performance.now();
    await ask('/v1/completions', {
      prompt: `The number ${asked++ % 97} is a`,
      max_tokens: 12,
    });
    times.push(performance.now() - began);
  }
}

/** Runs `work` while so many clients ask. */
async function under(load, work) {
  running = load;
  const clients = Promise.all(Array.from({ length: load }, (_, own) => client(own)));
  await Promise.race([work(), clients]);
  running = 0;
  await clients;
}

async function served(flags, work) {
  const args = [
    'serve',
    'models/olmoe-mini',
    '--port',
    String(PORT),
    '--log-level',
    'warn',
    '--prefix-cache',
    'off',
  ];
  const link = ['--link-latency', '200us'];
  const server = spawn(process.execPath, ['dist/cli/main.js', ...args, ...link, ...flags], {
    stdio: 'inherit',
  });
  try {
    while (!(await fetch(`${SERVER}/health/ready`).catch(() => undefined))?.ok) await delay(100);
    await work();
  } finally {
    server.kill();
    await once(server, 'exit');
  }
}

const budget = async () => JSON.parse(await ask('/admin/budget'));
const p95 = (all) => [...all].sort((a, b) => a - b)[Math.ceil(0.95 * all.length) - 1];

const rows = [];
const smallest = {};
await served([], async () => {
  const { device } = await budget();
  for (const load of new Set(LOADS))
    await under(load, async () => {
      let [low, high] = [device.smallest_bytes, device.budget_bytes];
      while (high > 1.03 * low) {
        const middle = Math.round(Math.sqrt(low * high));
        await ask('/admin/budget', { device: middle }, 'PUT');
        await delay(500);
        times = [];
        await delay(1000 * SWEEP_SECONDS);
        console.log(
          `sweep: ${load} clients, ${(middle / MIB).toFixed(1)} MiB: p95 ${p95(times).toFixed(0)} ms`,
        );
        if (p95(times) <= TARGET_MS) high = middle;
        else low = middle;
      }
      smallest[load] = high;
    });
});

await served(['--latency-p95', `${TARGET_MS}ms`], async () => {
  const began = performance.now();
  const cap = (await budget()).device.budget_bytes;
  for (const load of LOADS)
    await under(load, async () => {
      const own = [];
      const stepped = performance.now();
      while (performance.now() - stepped < 1000 * PHASE_SECONDS) {
        await delay(500);
        const { device, kept } = await budget();
        assert(device.budget_bytes <= cap);
        const x = (performance.now() - began) / 1000;
        own.push({ seconds: (performance.now() - stepped) / 1000, bytes: device.budget_bytes });
        rows.push({ x, y: device.budget_bytes / MIB, series: 'budget' });
        rows.push({ x, y: smallest[load] / MIB, series: 'smallest that holds the target, by a sweep' });
        rows.push({ x, y: cap / MIB, series: 'cap' });
        if (own.length % 4 === 0)
          console.log(load, x.toFixed(0), (device.budget_bytes / MIB).toFixed(1), kept.ratio);
      }
      const changed = own.findLast(({ bytes }, i) => i > 0 && bytes !== own[i - 1].bytes)?.seconds ?? 0;
      const over = own.at(-1).bytes / smallest[load];
      console.log(
        `${load} clients: settled after ${changed.toFixed(1)} s at ${over.toFixed(2)} × the smallest`,
      );
    });
});
const spec = lineChart({
  title: 'The budget under a latency target',
  subtitle: `olmoe-mini, p95 ≤ ${TARGET_MS} ms, loads of 200 µs; ${LOADS.join(', then ')} clients, ${PHASE_SECONDS} s each`,
  ...{ rows, x: 'seconds', y: 'MiB' },
});
spec.mark = { type: 'line', strokeWidth: 2 };
writeFileSync('docs/pictures/latency-target.svg', await renderSvg(spec));
