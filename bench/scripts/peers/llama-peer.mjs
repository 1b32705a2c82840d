// Does sida give the tokens of llama.cpp, from the same GGUF and the same prompt? llama.cpp decodes greedily; sida is
// fed its tokens and says at each step whether its own best logit is that of the same token. The first difference is
// that of two greedy runs. `margin` is how far our best logit is above the one of llama.cpp's token, `spread` the
// standard deviation of our logits at that step: a small part of it is a near tie, which roundings decide.
import { existsSync, readFileSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { openEngine } from '../../../dist/inference/open-engine.js';
import { sida } from '../../dist/support/processes.js';
import { scriptProvenance } from '../../dist/support/provenance.js';
import { optionsOf, scratchDirectory, words, writeResult } from '../../dist/support/script.js';
import { drawPrompt, requireLlama, runLlama } from './llama.mjs';

const HELP = `node bench/scripts/peers/llama-peer.mjs [--file MODEL.gguf] [--pack DIR] [--experts auto] [--dense auto]
  [--budget 100%] [--prompt 32] [--steps 64] [--threads 2] [--seed 12345] [--save NAME]
The pack is made where --pack has none, with auto in the types that lose nothing; without --pack it is removed again.
llama.cpp rounds activations to 8 bits for quantized matrices, and keys and values to f16; sida computes in f32.
Needs sh bench/scripts/peers/make-peer.sh. The result is bench/results/NAME.json; default: only printed.`;

const values = optionsOf(HELP);
if (values.file === undefined) throw new Error('--file MODEL.gguf is required');
requireLlama();
const { prompt: promptTokens, steps, threads, file } = values;

/** Our best token of a row of logits, and how far it is above another one. */
function compareRow(logits, token) {
  let [best, sum, squares] = [0, 0, 0];
  for (const [id, value] of logits.entries()) {
    if (value > logits[best]) best = id;
    sum += value;
    squares += value * value;
  }
  const spread = Math.sqrt(squares / logits.length - (sum / logits.length) ** 2);
  return { best, margin: logits[best] - logits[token], spread };
}

/** Feeds the prompt and then llama.cpp's tokens; one comparison for each of them. */
function runSida(pack, prompt, tokens) {
  const room = { maxBatchTokens: Math.max(64, prompt.length), kvTokens: prompt.length + steps + 16 };
  const engine = openEngine({ ...room, threads, pack, memoryBudget: values.budget, hostBudget: '0' });
  const run = (ids) => {
    const offsets = Int32Array.of(0, ids.length);
    const given = { stack: 0, sequences: Int32Array.of(1), offsets, tokens: Int32Array.from(ids) };
    return engine.runBatch({ ...given, logitRows: Int32Array.of(ids.length - 1) }, null).logits;
  };
  const fed = [prompt, ...tokens.slice(0, -1).map((token) => [token])];
  const rows = fed.map((ids, i) => compareRow(run(ids), tokens[i]));
  engine.checkIntegrity();
  engine.close();
  return rows;
}

const pack = values.pack ?? join(scratchDirectory(), 'pack');
if (!existsSync(join(pack, 'manifest.json'))) {
  await sida(words`convert ${file} --out ${pack} --experts ${values.experts} --dense ${values.dense}`);
}
const { vocab_size: vocab } = JSON.parse(readFileSync(join(pack, 'config.json'), 'utf8'));
const { experts, dense } = JSON.parse(readFileSync(join(pack, 'manifest.json'), 'utf8'));
const prompt = drawPrompt(values.seed, promptTokens, vocab);
const peer = await runLlama({ file, prompt, steps, threads });
const differences = runSida(pack, prompt, peer.tokens)
  .map((row, step) => ({ step, theirs: peer.tokens[step], ...row }))
  .filter(({ best, theirs }) => best !== theirs);
const result = {
  question: 'Does sida give the tokens of llama.cpp, from the same GGUF and the same prompt?',
  ...scriptProvenance(),
  ...{ file: basename(file), fileBytes: statSync(file).size },
  types: { experts: experts.dtype, dense: dense.dtype },
  ...{ threads, promptTokens, steps: peer.tokens.length },
  equalUntilFirstDifference: differences[0]?.step ?? peer.tokens.length,
  agreeing: peer.tokens.length - differences.length,
  ...{ differences, peer },
};
const { equalUntilFirstDifference: equal, agreeing } = result;
console.log(`Of ${result.steps} tokens ${equal} are the same before the first difference, ${agreeing} in all.`);
if (values.save) writeResult(values.save, result);
