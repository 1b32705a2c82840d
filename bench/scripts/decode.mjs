// Does a decoder give the same bits within every budget, and how fast? A pack reads real text: the prompt in chunks, then
// one token a pass, the text's own tokens, so that all budgets see the same inputs. Each budget is a process of its own.
import { fork } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openEngine } from '../../dist/inference/open-engine.js';
import { loadAddon } from '../../dist/native/addon.js';
import { EXPERT_UNUSED } from '../../dist/native/addon-types.js';
import { formatBytes } from '../../dist/text/bytes.js';
import { Tokenizer } from '../../dist/text/tokenizer.js';
import { BUNDLED_SST2, REPOSITORY } from '../dist/support/paths.js';
import { scriptProvenance } from '../dist/support/provenance.js';
import { scriptOptions, writeResult } from '../dist/support/script.js';
import { median } from '../dist/support/statistics.js';

const HELP = `node bench/scripts/decode.mjs --pack DIR [options]
  --budgets 1300MB,100%  the last one is the reference, whose logits all others must have
  --text FILE --tokenizer FILE   what is fed; ids beyond the vocabulary are wrapped into it
  --prompt 128 --chunk 64        tokens of the prompt, and of a pass of it
  --steps 96 --warm 16           tokens fed one by one; the first are left out of times and hits
  --look-ahead-layers 0          a list makes a run each
  --device cpu --host-budget 0 --threads 2
  --warm-prompt                  the prompt runs once before it is measured
  --save NAME                    the result is bench/results/NAME.json; default: only printed
Experts leave by least recent use: no tables. Resident memory counts anonymous and mapped pages, not the page cache.`;

const values = scriptOptions(HELP, {
  pack: undefined,
  tokenizer: `${REPOSITORY}models/olmoe-mini/tokenizer.json`,
  text: BUNDLED_SST2,
  budgets: '1300MB,100%',
  prompt: '128',
  steps: '96',
  warm: '16',
  chunk: '64',
  threads: '2',
  'look-ahead-layers': '0',
  device: 'cpu',
  'host-budget': '0',
  'warm-prompt': false,
  save: undefined,
  only: undefined,
});
if (values.pack === undefined) throw new Error('--pack DIR is required');
const [promptTokens, steps, warm, chunk, threads] = ['prompt', 'steps', 'warm', 'chunk', 'threads'].map(
  (name) => Number(values[name]),
);

/** Resident bytes of this process, now or at most so far. */
function residentBytes(field) {
  const line = readFileSync('/proc/self/status', 'utf8').match(new RegExp(`${field}:\\s+(\\d+) kB`));
  return Number(line[1]) * 1024;
}

/** The first ids of the text, wrapped into the model's vocabulary. */
function readIds() {
  const tokenizer = new Tokenizer(readFileSync(values.tokenizer), {
    vocabSize: 1 << 30,
    maxInputBytes: 1 << 22,
  });
  const text = readFileSync(values.text, 'utf8').slice(0, 40 * (promptTokens + steps));
  const { vocab_size: vocab } = JSON.parse(readFileSync(join(values.pack, 'config.json'), 'utf8'));
  const ids = tokenizer.encodePlain(text).slice(0, promptTokens + steps);
  if (ids.length < promptTokens + steps) throw new Error(`The text has ${ids.length} tokens`);
  return ids.map((id) => id % vocab);
}

function measure({ budget, layers }, ids) {
  const addon = loadAddon();
  const { device, 'host-budget': hostBudget } = values;
  const limits = { maxBatchTokens: chunk, kvTokens: promptTokens + steps + 16, threads, device };
  const plan = addon.planMemory({ pack: values.pack }, limits);
  globalThis.gc();
  writeFileSync('/proc/self/clear_refs', '5'); // the peak counts from here
  const before = residentBytes('VmRSS');
  const engine = openEngine({ ...limits, pack: values.pack, memoryBudget: budget, hostBudget });
  const digest = createHash('sha256');
  const used = new Set();
  const run = (tokens, sequence = 1) => {
    const started = performance.now();
    const { logits, stats, found } = engine.runBatch(
      {
        stack: 0,
        sequences: Int32Array.of(sequence),
        offsets: Int32Array.of(0, tokens.length),
        tokens: Int32Array.from(tokens),
        logitRows: Int32Array.from(tokens.keys()),
        lookAheadLayers: layers,
      },
      null,
    );
    digest.update(Buffer.from(logits.buffer, logits.byteOffset, logits.byteLength));
    const ms = performance.now() - started;
    if (!logits.every(Number.isFinite)) throw new Error('A logit is not finite');
    for (let expert = 0; tokens.length === 1 && expert < found.length; expert++)
      if (found[expert] !== EXPERT_UNUSED) used.add(expert);
    return { ms, ...stats };
  };
  const prompt = (sequence) => {
    const passes = [];
    for (let at = 0; at < promptTokens; at += chunk)
      passes.push(run(ids.slice(at, Math.min(at + chunk, promptTokens)), sequence));
    return passes;
  };
  if (values['warm-prompt']) {
    prompt(2);
    engine.releaseSequences(Int32Array.of(2));
  }
  const prefill = prompt(1);
  const fed = ids.slice(promptTokens);
  const decoded = fed.map((id) => run([id])).slice(warm);
  engine.checkIntegrity();
  const usage = engine.usage();
  const sum = (name, runs) => runs.reduce((total, each) => total + each[name], 0);
  const result = {
    budget,
    lookAheadLayers: layers,
    budgetBytes: usage.budgetBytes,
    peakBytes: usage.peakBytes,
    slots: usage.slots,
    experts: plan.experts,
    rssGrowthBytes: residentBytes('VmHWM') - before,
    prefillTokensPerSecond: (promptTokens / sum('ms', prefill)) * 1000,
    decodeTokensPerSecond: 1000 / median(decoded.map(({ ms }) => ms)),
    bytesPerToken: sum('bytesMoved', decoded) / decoded.length,
    stallShare: sum('stallNs', decoded) / sum('passNs', decoded),
    hits: sum('resident', decoded) / sum('needed', decoded),
    steps: decoded.length,
    distinct: new Set(fed.slice(warm)).size,
    used: used.size,
    logits: digest.digest('hex'),
  };
  engine.close();
  return result;
}

if (values.only !== undefined) {
  process.once('message', (ids) =>
    process.send(measure(JSON.parse(values.only), ids), () => process.disconnect()),
  );
} else {
  const ids = readIds();
  const results = [];
  const lookedAhead = values['look-ahead-layers'].split(',').map(Number);
  const runs = values.budgets
    .split(',')
    .flatMap((budget) => lookedAhead.map((layers) => ({ budget, layers })));
  for (const run of runs) {
    const { budget } = run;
    const args = [...process.argv.slice(2), '--only', JSON.stringify(run)];
    const child = fork(new URL(import.meta.url).pathname, args, {
      stdio: 'inherit',
      execArgv: ['--expose-gc'],
    });
    child.send(ids);
    const result = await new Promise((resolve, reject) => {
      child.once('message', resolve);
      child.once('exit', (code) => code !== 0 && reject(new Error(`${budget}: the run ended with ${code}`)));
    });
    results.push(result);
    const { slots, experts, decodeTokensPerSecond, bytesPerToken, logits } = result;
    const speed = `${decodeTokensPerSecond.toFixed(2)} tokens/s, ${formatBytes(Math.round(bytesPerToken))} a token`;
    console.log(`${budget}: ${slots} of ${experts} slots, ${speed}, logits ${logits.slice(0, 16)}`);
  }
  const reference = results.at(-1);
  const others = results.filter(({ logits }) => logits !== reference.logits);
  console.log(
    others.length === 0
      ? `All logits are those of ${reference.budget}, bit for bit.`
      : `Logits differ from those of ${reference.budget}: ${others.map(({ budget }) => budget).join(', ')}`,
  );
  if (values.save)
    writeResult(values.save, {
      ...scriptProvenance(),
      threads,
      device: values.device,
      ...(values.device === 'cuda' && { gpu: loadAddon().cuda().device?.name }),
      identical: others.length === 0,
      results,
    });
  process.exitCode = others.length === 0 ? 0 : 1;
}
