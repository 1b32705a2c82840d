// What does the rule of eviction cost a decoder, in the prompt and in the generation? A text runs in chunks, then token
// by token, with experts on disk, by rule and budget; each run is a process of its own, and rounds alternate.
//   node bench/scripts/eviction/eviction.mjs --pack DIR --tokenizer TOKENIZER.json --text FILE [--budgets 10%,25%,50%]
//     [--prompt 512] [--chunk 128] [--steps 128] [--rounds 3] [--threads 2] [--out NAME] [--quick]
// The runs begin without an expert in memory, but for the resident one. `none` is what `sida serve --predictor none`
// does. `known` is the same planner with the true routing of the running pass and of the next one as its tables. Logits
// must be those of the resident run, bit for bit.

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';
import { fewestLoads } from '../../../dist/evaluation/fewest-loads.js';
import { Tokenizer } from '../../../dist/text/tokenizer.js';
import { scriptProvenance } from '../../dist/support/provenance.js';
import { writeResult } from '../../dist/support/script-result.js';
import { median } from '../../dist/support/statistics.js';

const { values } = parseArgs({
  options: {
    pack: { type: 'string' },
    tokenizer: { type: 'string', default: 'models/olmoe-mini/tokenizer.json' },
    text: { type: 'string' },
    budgets: { type: 'string', default: '10%,25%,50%' },
    prompt: { type: 'string', default: '512' },
    chunk: { type: 'string', default: '128' },
    steps: { type: 'string', default: '128' },
    rounds: { type: 'string', default: '3' },
    threads: { type: 'string', default: '2' },
    out: { type: 'string', default: 'eviction' },
    quick: { type: 'boolean', default: false },
  },
});
if (values.pack === undefined || values.text === undefined) throw new Error('--pack and --text are required');
const [prompt, chunk, steps, rounds, threads] = ['prompt', 'chunk', 'steps', 'rounds', 'threads'].map(
  (name) => Number(values[name]),
);
const RULES = ['lru', 'lfu', 'none', 'known'];

/** The first ids of the text, wrapped into the model's vocabulary. */
function readIds() {
  const tokenizer = new Tokenizer(readFileSync(values.tokenizer), {
    vocabSize: 1 << 30,
    maxInputBytes: 1 << 24,
  });
  const text = readFileSync(values.text, 'utf8').slice(0, 40 * (prompt + steps));
  const { vocab_size: vocab } = JSON.parse(readFileSync(join(values.pack, 'config.json'), 'utf8'));
  const ids = tokenizer.encodePlain(text).slice(0, prompt + steps);
  if (ids.length < prompt + steps) throw new Error(`the text has ${ids.length} of ${prompt + steps} tokens`);
  return ids.map((id) => id % vocab);
}

/** `visits`: the needs of every pass, by layer; the resident run finds them. */
async function measure(work) {
  const child = fork(new URL('eviction-process.mjs', import.meta.url), { stdio: 'inherit' });
  child.send({ pack: values.pack, threads, prompt, chunk, steps, ids, ...work });
  const ended = once(child, 'exit');
  const failed = ended.then(([code]) =>
    Promise.reject(new Error(`${work.budget} ${work.rule}: ended with ${code}`)),
  );
  const [result] = await Promise.race([once(child, 'message'), failed]);
  failed.catch(() => {});
  await ended;
  return result;
}

const ids = readIds();
const resident = await measure({ budget: '100%', rule: 'lru', warmUp: true });
const { visits, slotBytes, experts, prefillPasses } = resident;
const rows = [];
for (const budget of values.budgets.split(',')) {
  const runs = new Map(RULES.map((rule) => [rule, []]));
  for (let round = 0; round < rounds; round++) {
    for (const rule of RULES) {
      const run = await measure({ budget, rule, ...(rule === 'known' && { visits }) });
      if (run.logits !== resident.logits)
        throw new Error(`${budget} ${rule}: the logits differ from the resident ones`);
      runs.get(rule).push(run);
      console.error(`${budget} ${rule}: ${JSON.stringify({ prefill: run.prefill, decode: run.decode })}`);
    }
  }
  const { slots, bytesPerSecond } = runs.get('lru')[0];
  // Each phase begins with what the rule holds; the bound is of the whole run, less what the prompt needs at least.
  const loadsOf = (passes) => fewestLoads(passes.flat(), experts, slots);
  const fewest = { prefill: loadsOf(visits.slice(0, prefillPasses)), all: loadsOf(visits) };
  rows.push({
    budget,
    slots,
    bytesPerSecond,
    fewestBytes: { prefill: fewest.prefill * slotBytes, decode: (fewest.all - fewest.prefill) * slotBytes },
    rules: RULES.map((rule) => {
      const all = runs.get(rule);
      const middle = (phase, name) => median(all.map((run) => run[phase][name]));
      const phase = (name) => ({
        ms: middle(name, 'ms'),
        bytes: middle(name, 'bytes'),
        needed: middle(name, 'needed'),
        hits: middle(name, 'hits'),
        stallShare: middle(name, 'stallShare'),
      });
      return { rule, prefill: phase('prefill'), decode: phase('decode') };
    }),
  });
}
const chunks = resident.chunks.map(({ ms, needed }) => ({ ms, bytes: needed * slotBytes }));
const result = {
  question: 'What does the rule of eviction cost a decoder?',
  ...scriptProvenance(),
  ...{ pack: basename(values.pack), text: basename(values.text), threads, rounds, prompt, chunk, steps },
  ...{ experts, slotBytes, chunks, resident: { prefill: resident.prefill, decode: resident.decode }, rows },
};
writeResult(values.out, result, values.quick);
