// Our encoder of a pack in one process, within a budget, fed line by line as transformers_encoder.py is.
import { writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { openEngine } from '../../../dist/inference/open-engine.js';
import { loadAddon } from '../../../dist/native/addon.js';

const { pack, threads, activations, maxTokens, device, budget } = JSON.parse(process.argv[2]);
const answer = (fields) => process.stdout.write(`${JSON.stringify(fields)}\n`);

const addon = loadAddon();
const limits = { maxBatchTokens: maxTokens, kvTokens: maxTokens + addon.kvPageTokens, threads, activations, device };
const engine = openEngine({ ...limits, pack, memoryBudget: budget, hostBudget: device === 'cuda' ? '100%' : '0' });
// A load at a time would leave the disk idle in between; pinning all of them is what waits for all.
const all = Uint32Array.from({ length: budget === '100%' ? engine.plan.experts : 0 }, (_, id) => id);
engine.pin(all, true);
const { driver, workspace, kvCache } = engine.plan;
const weightBytes = engine.usage().budgetBytes - driver - workspace - kvCache;
answer({ isa: addon.cpuFeatures().isa, weightBytes });

const sequences = Int32Array.of(1);
for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  const tokens = Int32Array.from(request.tokens);
  const batch = { stack: 0, sequences, offsets: Int32Array.of(0, tokens.length), tokens, hiddenStates: true };
  const begin = performance.now();
  const { hiddenStates, stats } = engine.runBatch(batch, null);
  const ms = performance.now() - begin;
  engine.releaseSequences(sequences);
  if (request.hidden) writeFileSync(request.hidden, hiddenStates);
  answer({ ms, expertsNeeded: stats.needed });
}
