// Does sida give the tokens of llama.cpp, from the same GGUF and the same prompt? llama.cpp decodes greedily; sida
// is fed its tokens and says at each step whether its own best logit is that of the same token. The first
// difference is that of two greedy runs. `margin` is how far our best logit is above the one of llama.cpp's token,
// `spread` the standard deviation of our logits at that step: a small part of it is a near tie, which roundings
// decide.
//   sh bench/scripts/gguf/make-peer.sh
//   node bench/scripts/gguf/llama-peer.mjs --file MODEL.gguf [--pack DIR] [--experts auto] [--dense auto]
//     [--budget 100%] [--prompt 32] [--steps 64] [--threads 2] [--seed 12345] [--save NAME]
// The pack is made where --pack has none, with auto in the types that lose nothing; without --pack it is removed again.
// llama.cpp rounds activations to 8 bits for quantized matrices, and keys and values to f16; sida computes in f32.

import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';
import { openEngine } from '../../../dist/inference/open-engine.js';
import { sida } from '../../dist/support/processes.js';
import { scriptProvenance } from '../../dist/support/provenance.js';
import { writeResult } from '../../dist/support/script-result.js';
import { drawPrompt, requireLlama, runLlama } from './llama.mjs';

const { values } = parseArgs({
  options: {
    file: { type: 'string' },
    pack: { type: 'string' },
    experts: { type: 'string', default: 'auto' },
    dense: { type: 'string', default: 'auto' },
    budget: { type: 'string', default: '100%' },
    prompt: { type: 'string', default: '32' },
    steps: { type: 'string', default: '64' },
    threads: { type: 'string', default: '2' },
    seed: { type: 'string', default: '12345' },
    save: { type: 'string' },
  },
});
if (values.file === undefined) throw new Error('--file MODEL.gguf is required');
requireLlama();
const [promptTokens, steps, threads] = ['prompt', 'steps', 'threads'].map((name) => Number(values[name]));

/** Our best token of a row of logits, and how far it is above another one. */
function compareRow(logits, token) {
  let best = 0;
  let sum = 0;
  let squares = 0;
  for (const [id, value] of logits.entries()) {
    if (value > logits[best]) best = id;
    sum += value;
    squares += value * value;
  }
  const spread = Math.sqrt(squares / logits.length - (sum / logits.length) ** 2);
  let second = best === 0 ? 1 : 0;
  for (const [id, value] of logits.entries()) if (id !== best && value > logits[second]) second = id;
  return { best, gap: logits[best] - logits[second], margin: logits[best] - logits[token], spread };
}

/** Feeds the prompt and then llama.cpp's tokens; one comparison for each of them. */
function runSida(pack, prompt, tokens) {
  const limits = {
    maxBatchTokens: Math.max(64, prompt.length),
    kvTokens: prompt.length + steps + 16,
    threads,
  };
  const engine = openEngine({ ...limits, pack, memoryBudget: values.budget, hostBudget: '0' });
  const run = (ids) => {
    const { logits } = engine.runBatch(
      {
        stack: 0,
        sequences: Int32Array.of(1),
        offsets: Int32Array.of(0, ids.length),
        tokens: Int32Array.from(ids),
        logitRows: Int32Array.of(ids.length - 1),
      },
      null,
    );
    return logits;
  };
  const started = performance.now();
  const rows = [compareRow(run(prompt), tokens[0])];
  const first = performance.now();
  for (let i = 1; i < tokens.length; i++) rows.push(compareRow(run([tokens[i - 1]]), tokens[i]));
  const decodeMs = performance.now() - first;
  engine.checkIntegrity();
  engine.close();
  return {
    rows,
    prefillTokensPerSecond: (1000 * prompt.length) / (first - started),
    decodeTokensPerSecond: (1000 * (tokens.length - 1)) / decodeMs,
  };
}

const work = mkdtempSync(join(tmpdir(), 'sida-bench-'));
try {
  const pack = values.pack ?? join(work, 'pack');
  if (!existsSync(join(pack, 'manifest.json'))) {
    console.error(`packing ${basename(values.file)}`);
    await sida(['convert', values.file, '--out', pack, '--experts', values.experts, '--dense', values.dense]);
  }
  const { vocab_size: vocab } = JSON.parse(readFileSync(join(pack, 'config.json'), 'utf8'));
  const { experts, dense } = JSON.parse(readFileSync(join(pack, 'manifest.json'), 'utf8'));
  const prompt = drawPrompt(Number(values.seed), promptTokens, vocab);
  const peer = await runLlama({ file: values.file, prompt, steps, threads });
  const ours = runSida(pack, prompt, peer.tokens);
  const differences = ours.rows
    .map((row, step) => ({ step, theirs: peer.tokens[step], ...row }))
    .filter(({ best, theirs }) => best !== theirs);
  const equal = differences[0]?.step ?? peer.tokens.length;
  const gaps = ours.rows.map(({ gap }) => gap).sort((a, b) => a - b);
  const result = {
    question: 'Does sida give the tokens of llama.cpp, from the same GGUF and the same prompt?',
    ...scriptProvenance(),
    file: basename(values.file),
    fileBytes: statSync(values.file).size,
    types: { experts: experts.dtype, dense: dense.dtype },
    threads,
    promptTokens,
    steps: peer.tokens.length,
    equalUntilFirstDifference: equal,
    agreeing: peer.tokens.length - differences.length,
    differences,
    medianGap: gaps[gaps.length >> 1],
    sida: {
      prefillTokensPerSecond: ours.prefillTokensPerSecond,
      decodeTokensPerSecond: ours.decodeTokensPerSecond,
    },
    peer,
  };
  console.log(`${equal} of ${result.steps} greedy tokens are the same before the first difference.`);
  for (const { step, best, theirs, margin, spread } of differences.slice(0, 8))
    console.log(
      `step ${step}: ours ${best}, llama.cpp's ${theirs}; margin ${margin.toPrecision(3)}, ` +
        `${((100 * margin) / spread).toFixed(2)} % of the spread of the logits`,
    );
  console.log(`Fed with its tokens: ${result.agreeing} of ${result.steps} agree.`);
  if (values.save) writeResult(values.save, result);
} finally {
  rmSync(work, { recursive: true, force: true });
}
