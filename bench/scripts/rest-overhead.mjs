// What does the way over REST add to the engine's own time? `sida serve` on loopback with switch-mini resident,
// SST-2 sentences, one to a request; clients in a process of their own, which shares the cores with the server.
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { convertCheckpoint } from '../../dist/checkpoint/converter.js';
import { LineProcess } from '../dist/support/line-process.js';
import { MINI_DIRECTORY, SCRIPTS } from '../dist/support/paths.js';
import { scriptProvenance } from '../dist/support/provenance.js';
import { nameOfSpeed, optionsOf, scratchDirectory, words, writeResult } from '../dist/support/script.js';
import { ServeProcess } from '../dist/support/serve-process.js';
import { sst2Texts } from '../dist/support/sst2.js';
import { median, medians, quantile } from '../dist/support/statistics.js';
import { StepProgress } from '../dist/support/step-progress.js';
import { engineConfig } from '../dist/systems/engine-config.js';

const HELP = `node bench/scripts/rest-overhead.mjs [options]
  --requests 300         of one client, a round; many clients send four times as many
  --clients 32           of the throughput
  --rounds 10            one client, many clients and the bare engine in turn
  --batch-wait 2         --batch-wait-ms of the server; a list makes a comparison each
  --threads N
  --device cpu --save rest-overhead
  --quick (--requests 100 --rounds 1)  the result goes to build/
Engine time is what the server itself reports of the same request (x-inference-time: from the moment the inference
thread takes the batch up to its last native pass). The bare engine is the native engine in a loop over the same token
ids, at one sentence a batch and at the mean batch that the server made for many clients.
The result is bench/results/rest-overhead.json, with AMX rest-overhead-amx.json; --save names another.`;

const options = optionsOf(HELP);
const { quick, requests, rounds, clients, device } = options;
const threads = options.threads ?? availableParallelism();
const many = 4 * requests;
const BUDGET = '100%';

const bodies = sst2Texts().map((input) => ({ task: 'sst2', input }));
const p50 = (list) => quantile(list, 0.5);

/** Requests of the given number of clients, with what the server counted meanwhile. */
async function serveRound(server, client, clientCount, requestCount) {
  const batches = async () => (await server.metrics()).get('sida_batches_total');
  const before = await batches();
  const cpu = server.cpu();
  const asked = { port: server.port, path: '/v1/classify', bodies };
  const { answers, ...rest } = await client.ask({ ...asked, clients: clientCount, requests: requestCount });
  const [latencyMs, inferenceMs] = ['ms', 'inferenceMs'].map((name) => answers.map((answer) => answer[name]));
  const { apiMs, engineMs } = server.cpu();
  const after = await batches();
  return {
    perSecond: (1000 * requestCount) / rest.wallMs,
    latencyP50Ms: p50(latencyMs),
    inferenceP50Ms: p50(inferenceMs),
    // Of each request its own, then the median: what the way added.
    overheadP50Ms: p50(latencyMs.map((ms, i) => ms - inferenceMs[i])),
    batch: requestCount / (after - before),
    // CPU time, all threads: what the others take the engine cannot have.
    clientCpuMs: rest.cpuMs / requestCount,
    apiCpuMs: (apiMs - cpu.apiMs) / requestCount,
    engineCpuMs: (engineMs - cpu.engineMs) / requestCount,
  };
}

async function bareRound(bare, batch, requestCount) {
  const { wallMs, batchMs, cpuMs } = await bare.ask({ batch, requests: requestCount });
  return {
    batch,
    perSecond: (1000 * requestCount) / wallMs,
    batchP50Ms: p50(batchMs),
    cpuMs: cpuMs / requestCount,
  };
}

async function measure(pack, batchWait) {
  const config = engineConfig({
    model: pack,
    memoryBudget: BUDGET,
    predictor: 'none',
    device,
    threads: String(threads),
  });
  const given = JSON.stringify({ config, pack });
  const bare = new LineProcess('the bare engine', 'node', [`${SCRIPTS}rest/bare-engine.mjs`, given]);
  const client = new LineProcess('the clients', 'node', [`${SCRIPTS}rest/clients.mjs`]);
  const flags = words`--model ${pack} --memory-budget ${BUDGET} --predictor none --threads ${threads} --device ${device}`;
  const server = await ServeProcess.start([...flags, '--batch-wait-ms', batchWait]);
  try {
    const parts = { one: [], many: [], bareOne: [], bareMany: [] };
    await serveRound(server, client, 1, requests);
    await bareRound(bare, 1, requests);
    const { batch } = await serveRound(server, client, clients, many);
    const progress = new StepProgress(`batch wait ${batchWait} ms`, rounds);
    for (let round = 0; round < rounds; round++) {
      parts.one.push(await serveRound(server, client, 1, requests));
      parts.bareOne.push(await bareRound(bare, 1, requests));
      parts.many.push(await serveRound(server, client, clients, many));
      parts.bareMany.push(await bareRound(bare, Math.max(1, Math.round(batch)), many));
      progress.step();
    }
    const result = Object.fromEntries(Object.entries(parts).map(([name, samples]) => [name, medians(samples)]));
    return {
      batchWaitMs: Number(batchWait),
      ...result,
      overBareP50Ms: result.one.latencyP50Ms - result.bareOne.batchP50Ms,
      throughputShare: median(parts.many.map(({ perSecond }, i) => perSecond / parts.bareMany[i].perSecond)),
    };
  } finally {
    await Promise.all([bare.close(), client.close(), server.stop()]);
  }
}

const pack = join(scratchDirectory(), 'switch-mini');
await convertCheckpoint({ model: MINI_DIRECTORY, out: pack, experts: 'auto', dense: 'auto' });
const about = {
  question: "What does the way over REST add to the engine's own time?",
  ...scriptProvenance(),
  ...{ threads, clients, requests, rounds },
};
const runs = [];
for (const batchWait of String(options['batch-wait']).split(',')) {
  runs.push(await measure(pack, batchWait));
  writeResult(device === 'cuda' ? options.save : nameOfSpeed(options.save, about.isa), { ...about, runs }, quick);
}
