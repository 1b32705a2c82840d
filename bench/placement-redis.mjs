// What does choosing the worker that holds a request's experts save with real workers? `sida worker` processes over one
// redis-server take requests of mixed tasks: as the workers choose (--placement experts), as BullMQ hands them out
// (--placement any), and in turn (a Redis database for each worker, requests dealt one by one). Bytes are those that the
// workers' engines moved, from /metrics: they are exact, whatever else the machine does. Latency is of a busy machine.

import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { CHOICE_DEFAULTS } from '../dist/placement/choose-worker.js';
import { randomOf, shuffle } from '../dist/predictor/training/random.js';
import { workloads } from './batch-order-workloads.mjs';
import { BenchProgress } from './bench-progress.mjs';
import { quantile, writeResult } from './bench-result.mjs';
import { Fleet } from './placement-fleet.mjs';
import { commandText, machine } from './predictor-systems.mjs';

const HELP = `node bench/placement-redis.mjs [options]
  --workers 2,3       numbers of workers
  --budgets 20%,40%   memory budgets of each worker, as --memory-budget takes them
  --requests 600      requests that are measured, of each mixture; as many as a third of them warm up before
  --orders 3          orders of the requests, each with new processes
  --clients 2         requests in flight for each worker
  --workload NAME     one mixture alone
  --out FILE          where the result goes (default bench/results/placement-redis.json)
  --json              print the result too
MRPC and MultiRC are read from SIDA_DATA (default ../shared/data). Needs redis-server.`;

const { values } = parseArgs({
  options: {
    workers: { type: 'string', default: '2,3' },
    budgets: { type: 'string', default: '20%,40%' },
    requests: { type: 'string', default: '600' },
    orders: { type: 'string', default: '3' },
    clients: { type: 'string', default: '2' },
    workload: { type: 'string' },
    out: { type: 'string' },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  console.log(HELP);
  process.exit(0);
}

const SYSTEMS = ['in turn', 'any', 'experts'];
const count = Number(values.requests);
const orders = Array.from({ length: Number(values.orders) }, (_, seed) => seed);
const warmUp = Math.ceil(count / 3);
const list = (text) => text.split(',');

/** Sends requests from so many clients, each one at a time; gives their times in milliseconds and a digest of the answers. */
async function send(fleet, requests, clients) {
  const took = [];
  const answers = [];
  let next = 0;
  const client = async () => {
    while (next < requests.length) {
      const at = next++;
      const begin = performance.now();
      answers[at] = await fleet.classify(at, requests[at]);
      took.push(performance.now() - begin);
    }
  };
  await Promise.all(Array.from({ length: clients }, client));
  return { took, answers };
}

async function measure(requests, { system, workers, budget }) {
  const fleet = await Fleet.start({ system, workers, budget });
  try {
    const clients = workers * Number(values.clients);
    await send(fleet, requests.slice(0, warmUp), clients);
    const before = await fleet.figures();
    const begin = performance.now();
    const { took, answers } = await send(fleet, requests.slice(warmUp), clients);
    const endMs = performance.now() - begin;
    const after = await fleet.figures();
    const own = after.map((figures, i) =>
      Object.fromEntries(Object.entries(figures).map(([name, value]) => [name, value - before[i][name]])),
    );
    const sum = (name) => own.reduce((total, figures) => total + figures[name], 0);
    return {
      bytesPerRequest: sum('bytes') / took.length,
      needed: sum('needed') / took.length,
      batches: sum('batches'),
      p50Ms: quantile(took, 0.5),
      p99Ms: quantile(took, 0.99),
      endMs,
      ran: own.map(({ inputs }) => inputs),
      passed: sum('passed'),
      returned: sum('returned'),
      answers,
    };
  } finally {
    await fleet.stop();
  }
}

const draws = Object.entries(workloads(count + warmUp)).filter(
  ([name]) => values.workload === undefined || name === values.workload,
);
const setups = draws.flatMap(([workload, draw]) =>
  list(values.workers).flatMap((workers) =>
    list(values.budgets).map((budget) => ({ workload, draw, workers: Number(workers), budget })),
  ),
);
const progress = new BenchProgress('placement-redis', setups.length * SYSTEMS.length * orders.length);
const runs = [];
for (const { workload, draw, workers, budget } of setups) {
  const found = Object.fromEntries(SYSTEMS.map((system) => [system, []]));
  for (const seed of orders) {
    const requests = shuffle(draw(), randomOf(seed));
    let golden;
    for (const system of SYSTEMS) {
      const { answers, ...report } = await measure(requests, { system, workers, budget });
      golden ??= JSON.stringify(answers);
      if (JSON.stringify(answers) !== golden) throw new Error(`${system}: other answers. This is a bug.`);
      found[system].push(report);
      progress.step(
        `${workload}, ${workers} workers, ${budget}, ${system}: ${(report.bytesPerRequest / 2 ** 20).toFixed(2)} MiB`,
      );
    }
  }
  for (const system of SYSTEMS) runs.push({ workload, workers, budget, system, orders: found[system] });
}
const result = {
  question: 'What does choosing the worker that holds the experts of a request save, with real workers?',
  command: commandText('placement-redis.mjs'),
  ...machine(),
  requests: count,
  warmUp,
  clientsPerWorker: Number(values.clients),
  ...CHOICE_DEFAULTS,
  runs,
};
if (values.out === undefined) writeResult('placement-redis', result);
else writeFileSync(values.out, `${JSON.stringify(result, null, 1)}\n`);
if (values.json) console.log(JSON.stringify(result, null, 1));
