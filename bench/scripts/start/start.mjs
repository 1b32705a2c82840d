// How long does a server take from its start to its first answer? `sida serve` with a pack that is there: until it is
// ready, and until a prompt of 32 tokens has its first token, with the pack in the page cache and without.
import { statSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';
import { readManifest } from '../../../dist/checkpoint/manifest.js';
import { emptyPageCache } from '../../dist/support/page-cache.js';
import { scriptProvenance } from '../../dist/support/provenance.js';
import { nameOfSpeed, writeResult } from '../../dist/support/script-result.js';
import { ServeProcess } from '../../dist/support/serve-process.js';
import { medians } from '../../dist/support/statistics.js';
import { StepProgress } from '../../dist/support/step-progress.js';

const HELP = `node bench/scripts/start/start.mjs --pack DIR [options]
  --pack DIR             made by sida convert, or by bench/scripts/larger-than-memory/make-random-pack.mjs
  --budget 5GB
  --rounds 3             each of a cold and a warm start
  --threads N
  --quick                one round; the result goes to build/
A cold start empties the page cache, which needs root. The result is bench/results/start.json, with
AMX start-amx.json.`;

const { values } = parseArgs({
  options: {
    help: { type: 'boolean', default: false },
    quick: { type: 'boolean', default: false },
    pack: { type: 'string' },
    budget: { type: 'string', default: '5GB' },
    rounds: { type: 'string', default: '3' },
    threads: { type: 'string', default: String(availableParallelism()) },
  },
});
if (values.help || values.pack === undefined) {
  console.log(HELP);
  process.exit(values.help ? 0 : 2);
}
const { quick, pack, budget, threads } = values;
const rounds = quick ? 1 : Number(values.rounds);
const PROMPT = Array.from({ length: 32 }, (_, at) => 5 + at);

async function start() {
  const begin = performance.now();
  const server = await ServeProcess.start(['--model', pack, '--memory-budget', budget, '--threads', threads]);
  const readyMs = performance.now() - begin;
  try {
    await server.post('/v1/completions', { prompt: PROMPT, max_tokens: 1 });
    return { readyMs, firstAnswerMs: performance.now() - begin };
  } finally {
    await server.stop();
  }
}

const { files } = await readManifest(pack);
const bytes = files.reduce((sum, { name }) => sum + statSync(join(pack, name)).size, 0);
const progress = new StepProgress('starts', 2 * rounds);
const cold = [];
const warm = [];
for (let round = 0; round < rounds; round++) {
  emptyPageCache();
  cold.push(await start());
  progress.step('cold');
  warm.push(await start());
  progress.step('warm');
}
const result = {
  question: 'How long does a server take from its start to its first answer?',
  ...scriptProvenance(),
  ...{ pack: basename(pack), bytes, budget, threads: Number(threads), rounds, promptTokens: PROMPT.length },
  cold: medians(cold),
  warm: medians(warm),
};
console.log(`${(bytes / 1e9).toFixed(1)} GB, ${budget}: first answer after`);
for (const kind of ['cold', 'warm']) {
  const { readyMs, firstAnswerMs } = result[kind];
  console.log(
    `  ${kind}: ${(firstAnswerMs / 1000).toFixed(2)} s, ready after ${(readyMs / 1000).toFixed(2)} s`,
  );
}
writeResult(nameOfSpeed('start', result.isa), result, quick);
