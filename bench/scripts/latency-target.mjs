// Traces --latency-p95 under steps of load beside the smallest budget that a sweep finds, and draws it. A simulated
// link makes loads of experts take the same time on any disk.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { lineChart, renderSvg } from '../dist/report/charts.js';
import { optionsOf, words } from '../dist/support/script.js';
import { ServeProcess } from '../dist/support/serve-process.js';
import { quantile } from '../dist/support/statistics.js';

const HELP = `node bench/scripts/latency-target.mjs [--target 60] [--seconds 35] [--sweep 3] [--loads 1,3,1]
  [--quick (--target 200 --seconds 3 --sweep 1)]
--target: milliseconds; --loads: clients, one request after the other each, for --seconds each; --sweep: seconds of a
budget. Writes docs/pictures/latency-target.svg; with --quick only prints.`;

const { target, seconds, sweep, loads: list, quick } = optionsOf(HELP);
const loads = list.split(',').map(Number);
const MIB = 2 ** 20;
let running = 0;
let times = [];
let asked = 0;

async function client(server, own) {
  while (running > own) {
    const began = performance.now();
    await server.post('/v1/completions', { prompt: `The number ${asked++ % 97} is a`, max_tokens: 12 });
    times.push(performance.now() - began);
  }
}

/** Runs `work` while so many clients ask. */
async function under(server, load, work) {
  running = load;
  const clients = Promise.all(Array.from({ length: load }, (_, own) => client(server, own)));
  await Promise.race([work(), clients]);
  running = 0;
  await clients;
}

async function served(flags, work) {
  const usual = words`--model models/olmoe-mini --log-level warn --prefix-cache off --link-latency 200us`;
  const server = await ServeProcess.start([...usual, ...flags]);
  try {
    await work(server);
  } finally {
    await server.stop();
  }
}

const budgetOf = async ({ url }) => (await fetch(`${url}/admin/budget`)).json();
async function setBudget({ url }, device) {
  const headers = { 'content-type': 'application/json' };
  const answer = await fetch(`${url}/admin/budget`, {
    method: 'PUT',
    headers,
    body: JSON.stringify({ device }),
  });
  assert.equal(answer.status, 200, await answer.text());
}

const rows = [];
const smallest = {};
await served([], async (server) => {
  const { device } = await budgetOf(server);
  for (const load of new Set(loads))
    await under(server, load, async () => {
      let [low, high] = [device.smallest_bytes, device.budget_bytes];
      while (high > 1.03 * low) {
        const middle = Math.round(Math.sqrt(low * high));
        await setBudget(server, middle);
        await delay(500);
        times = [];
        await delay(1000 * sweep);
        const p95 = quantile(times, 0.95);
        console.log(`sweep: ${load} clients, ${(middle / MIB).toFixed(1)} MiB: p95 ${p95.toFixed(0)} ms`);
        if (p95 <= target) high = middle;
        else low = middle;
      }
      smallest[load] = high;
    });
});

await served(['--latency-p95', `${target}ms`], async (server) => {
  const began = performance.now();
  const cap = (await budgetOf(server)).device.budget_bytes;
  for (const load of loads)
    await under(server, load, async () => {
      const own = [];
      const stepped = performance.now();
      while (performance.now() - stepped < 1000 * seconds) {
        await delay(500);
        const { device, kept } = await budgetOf(server);
        assert(device.budget_bytes <= cap);
        const x = (performance.now() - began) / 1000;
        own.push({ seconds: (performance.now() - stepped) / 1000, bytes: device.budget_bytes });
        rows.push({ x, y: device.budget_bytes / MIB, series: 'budget' });
        rows.push({ x, y: smallest[load] / MIB, series: 'smallest that holds the target, by a sweep' });
        rows.push({ x, y: cap / MIB, series: 'cap' });
        if (own.length % 4 === 0) console.log(load, x.toFixed(0), (device.budget_bytes / MIB).toFixed(1), kept.ratio);
      }
      const changed = own.findLast(({ bytes }, i) => i > 0 && bytes !== own[i - 1].bytes)?.seconds ?? 0;
      const over = (own.at(-1).bytes / smallest[load]).toFixed(2);
      console.log(`${load} clients: settled after ${changed.toFixed(1)} s at ${over} × the smallest`);
    });
});
const spec = lineChart({
  title: 'The budget under a latency target',
  subtitle: `olmoe-mini, p95 ≤ ${target} ms, loads of 200 µs; ${loads.join(', then ')} clients, ${seconds} s each`,
  ...{ rows, x: 'seconds', y: 'MiB' },
});
spec.mark = { type: 'line', strokeWidth: 2 };
if (!quick) writeFileSync('docs/pictures/latency-target.svg', await renderSvg(spec));
