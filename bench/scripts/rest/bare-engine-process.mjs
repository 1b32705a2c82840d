// The native engine alone on the sentences that rest-client.mjs sends: token ids in, scores out, no HTTP, no queue, no
// other process. Fed line by line by rest-overhead.mjs:
//   in   {"batch", "requests"}
//   out  {"wallMs", "cpuMs", "batchMs": []}, a number for each batch
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { DirectEngine } from './direct-engine.mjs';
import { inBatches, scoringInputs } from './scoring-inputs.mjs';

const { config, pack } = JSON.parse(process.argv[2]);
const direct = new DirectEngine(config, pack);
const rows = readFileSync('test/data/sst2-validation.jsonl', 'utf8').trim().split('\n');
const { work, inputs } = scoringInputs({
  pack,
  shape: direct.engine.shape,
  texts: rows.map((line) => `sst2 sentence: ${JSON.parse(line).text}`),
  labels: ['negative', 'positive'],
});

for await (const line of createInterface({ input: process.stdin })) {
  const { batch, requests } = JSON.parse(line);
  const sentences = Array.from({ length: requests }, (_, i) => inputs[i % inputs.length]);
  const batchMs = [];
  const cpu = process.cpuUsage();
  const begin = performance.now();
  for (const group of inBatches(sentences, batch)) {
    const started = performance.now();
    direct.classify(group, work.plan);
    batchMs.push(performance.now() - started);
  }
  const wallMs = performance.now() - begin;
  const { user, system } = process.cpuUsage(cpu);
  process.stdout.write(`${JSON.stringify({ wallMs, cpuMs: (user + system) / 1000, batchMs })}\n`);
}
