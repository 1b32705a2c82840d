// The native engine alone on the sentences that rest-client.mjs sends: token ids in, scores out, no HTTP, no queue, no
// other process. Fed line by line by rest-overhead.mjs:
//   in   {"batch", "requests"}
//   out  {"wallMs", "cpuMs", "batchMs": []}, a number for each batch
import { createInterface } from 'node:readline';
import { sst2Texts } from '../../dist/support/sst2.js';
import { groupsOf } from '../../dist/systems/batches.js';
import { openServedEngine } from '../../dist/systems/open-engine.js';
import { scoreGroup, scoringInputs } from '../../dist/systems/scoring.js';

const { config, pack } = JSON.parse(process.argv[2]);
const engine = openServedEngine(config, pack);
const texts = sst2Texts().map((text) => `sst2 sentence: ${text}`);
const { inputs, plan } = scoringInputs(pack, engine.shape, texts, ['negative', 'positive']);
const pass = (batch) => engine.runBatch(batch, null);

for await (const line of createInterface({ input: process.stdin })) {
  const { batch, requests } = JSON.parse(line);
  const sentences = Array.from({ length: requests }, (_, i) => inputs[i % inputs.length]);
  const batchMs = [];
  const cpu = process.cpuUsage();
  const begin = performance.now();
  for (const group of groupsOf(sentences, batch)) {
    const started = performance.now();
    scoreGroup(engine, pass, group, plan);
    batchMs.push(performance.now() - started);
  }
  const wallMs = performance.now() - begin;
  const { user, system } = process.cpuUsage(cpu);
  process.stdout.write(`${JSON.stringify({ wallMs, cpuMs: (user + system) / 1000, batchMs })}\n`);
}
