// What does choosing the worker that holds a request's experts save? Requests of mixed tasks over simulated workers:
// round robin, the least loaded, and `chooseWorker` with the predictor's tables, with true ones, with the experts renamed
// (a control), by missing bytes alone, and with old summaries. Each setup runs the requests in several orders.
//   node bench/placement-workers.mjs [--requests 960] [--orders 3]
// MRPC and MultiRC are read from SIDA_DATA (default ../shared/data). Time is that of a simulated link and simulated compute.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { EVICTION_POLICIES } from '../dist/inference/eviction/index.js';
import { CHOICE_DEFAULTS } from '../dist/placement/choose-worker.js';
import { runFleet } from '../dist/placement/worker-fleet.js';
import { randomOf, shuffle } from '../dist/predictor/training/random.js';
import { workloads } from './batch-order-workloads.mjs';
import { BenchProgress } from './bench-progress.mjs';
import { commandText, machine, writeResult } from './bench-result.mjs';
import { RequestMaker } from './placement-requests.mjs';

const { values } = parseArgs({
  options: {
    requests: { type: 'string', default: '960' },
    orders: { type: 'string', default: '3' },
  },
});
const count = Number(values.requests);

/** The slower disks of today, and switch-mini's resident pass on one core. */
const LINK_BYTES_PER_SECOND = 2e9;
const TOKEN_MS = 0.03;
const CLIENTS_PER_WORKER = 4;
const SYSTEMS = [
  { name: 'round robin', choice: 'round-robin' },
  { name: 'least loaded', choice: 'least-loaded' },
  { name: 'expert-aware', need: 'predicted' },
  { name: 'expert-aware, true tables', need: 'true' },
  { name: 'expert-aware, shuffled tables', need: 'shuffled' },
  { name: 'missing bytes alone', need: 'predicted', loadWeight: 0 },
  { name: 'expert-aware, summary every 16', need: 'predicted', publishEvery: 16 },
];
const SHARES = [0.1, 0.2, 0.4];
const WORKERS = [2, 4];

function measure(requests, { experts, expertBytes }, { workers, share, system }) {
  const { name: _, choice = 'expert-aware', need = 'predicted', ...changes } = system;
  const report = runFleet(
    requests.map(({ needs, ...request }) => ({ ...request, need: needs[need] })),
    {
      experts,
      slots: Math.round(share * experts),
      rule: { policy: EVICTION_POLICIES['farthest-next-use'], lookahead: 4 },
      loadMs: (1000 * expertBytes) / LINK_BYTES_PER_SECOND,
      tokenMs: TOKEN_MS,
      publishEvery: 1,
      loadFactor: CHOICE_DEFAULTS.loadFactor,
      loadWeight: CHOICE_DEFAULTS.loadWeight,
      workers,
      clients: CLIENTS_PER_WORKER * workers,
      choice,
      ...changes,
    },
  );
  return { ...report, bytesPerRequest: (report.loads * expertBytes) / requests.length };
}

const folder = mkdtempSync(join(tmpdir(), 'sida-placement-'));
try {
  const maker = await RequestMaker.open(join(folder, 'pack'));
  const { experts, expertBytes } = maker;
  const found = Object.entries(workloads(count)).map(([workload, draw]) => ({
    workload,
    requests: draw().map((request) => maker.make(request)),
  }));
  maker.close();
  const orders = Array.from({ length: Number(values.orders) }, (_, seed) => seed);
  const total = found.length * WORKERS.length * SHARES.length * SYSTEMS.length * orders.length;
  const progress = new BenchProgress('placement-workers', total);
  const runs = found.flatMap(({ workload, requests }) =>
    WORKERS.flatMap((workers) =>
      SHARES.flatMap((share) =>
        SYSTEMS.map((system) => {
          const reports = orders.map((seed) => {
            const report = measure(
              shuffle([...requests], randomOf(seed)),
              { experts, expertBytes },
              { workers, share, system },
            );
            progress.step();
            return report;
          });
          return { workload, workers, share, system: system.name, orders: reports };
        }),
      ),
    ),
  );
  writeResult('placement-workers', {
    question: 'What does choosing the worker that holds the experts of a request save?',
    command: commandText('placement-workers.mjs'),
    ...machine(),
    requests: count,
    experts,
    expertBytes,
    linkBytesPerSecond: LINK_BYTES_PER_SECOND,
    tokenMs: TOKEN_MS,
    clientsPerWorker: CLIENTS_PER_WORKER,
    ...CHOICE_DEFAULTS,
    workloads: found.map(({ workload, requests }) => ({
      workload,
      tokens: requests.reduce((sum, { tokens }) => sum + tokens, 0) / requests.length,
      needed:
        requests.reduce((sum, { needs }) => sum + needs.true.reduce((a, b) => a + b), 0) / requests.length,
    })),
    runs,
  });
} finally {
  rmSync(folder, { recursive: true, force: true });
}
