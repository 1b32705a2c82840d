// Does a decoder give the same bits within every budget, and how fast? A pack reads real text: the prompt in chunks,
// then one token a pass, the text's own, so that all budgets see the same inputs. Each budget is a process of its own.
import { execFile, fork } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { openEngine } from '../../dist/inference/open-engine.js';
import { loadAddon } from '../../dist/native/addon.js';
import { EXPERT_UNUSED } from '../../dist/native/engine-types.js';
import { formatBytes } from '../../dist/text/bytes.js';
import { Tokenizer } from '../../dist/text/tokenizer.js';
import { NOTHING_KNOWN } from '../dist/replay/replay.js';
import { BUNDLED_SST2, REPOSITORY } from '../dist/support/paths.js';
import { scriptProvenance } from '../dist/support/provenance.js';
import { optionsOf, words, writeResult } from '../dist/support/script.js';
import { median, medians } from '../dist/support/statistics.js';

const HELP = `node bench/scripts/decoder-budgets.mjs [options]
  --pack DIRS            packs, with commas between them
  --budgets 1300MB,100%  the last one is the reference, whose logits all others must have
  --text FILE --tokenizer FILE  what is fed, default SST-2 and olmoe-mini's; ids are wrapped into the vocabulary
  --prompt 128 --chunk 64  tokens of the prompt, and of a pass of it
  --steps 96 --warm 16  tokens fed one by one; the first are left out of times and hits
  --device cpu --host-budget 0 --threads 2 --activations f32 --cuda-graphs auto
  --only BUDGET          of the packs, in this process
  --rounds 1                     of all packs and budgets in turn; figures are medians
  --warm-prompt                  the prompt runs once before it is measured
  --bound                        how far prompts are from max(computing, one read of the experts they need): the last
                                 budget must be 100%, and the prompt is warm
  --expert-peers HOST:PORT       each budget also with this expert peer, of expert-peers.mjs
  --save NAME                    the result is bench/results/NAME.json; default: only printed
By the default policy, without tables.`;

const values = optionsOf(HELP);
const { pack, device, activations, prompt: promptTokens, steps, warm, chunk, threads } = values;
if (pack === undefined) throw new Error('--pack DIR is required');

/** The first ids of the text, wrapped into the model's vocabulary. */
function readIds() {
  const options = { vocabSize: 1 << 30, maxInputBytes: 1 << 22 };
  const tokenizer = new Tokenizer(
    readFileSync(values.tokenizer ?? `${REPOSITORY}models/olmoe-mini/tokenizer.json`),
    options,
  );
  const text = readFileSync(values.text ?? BUNDLED_SST2, 'utf8').slice(0, 40 * (promptTokens + steps));
  const { vocab_size: vocab } = JSON.parse(readFileSync(join(pack.split(',')[0], 'config.json'), 'utf8'));
  const ids = tokenizer.encodePlain(text).slice(0, promptTokens + steps);
  if (ids.length < promptTokens + steps) throw new Error(`The text has ${ids.length} tokens`);
  return ids.map((id) => id % vocab);
}

/** `peer`: HOST:PORT; empty or undefined without one. */
function measure(budget, peer, ids) {
  const limits = { maxBatchTokens: chunk, kvTokens: promptTokens + steps + 16, threads, device, activations };
  const [host, port] = (peer ?? '').split(':');
  const engine = openEngine({
    ...limits,
    devicePasses: values['cuda-graphs'] !== 'off',
    pack,
    memoryBudget: budget,
    hostBudget: String(values['host-budget']),
    ...(peer && { expertPeers: [{ host, port: Number(port) }] }),
  });
  const digest = createHash('sha256');
  const needed = new Set();
  const run = (tokens, sequence = 1) => {
    const started = performance.now();
    const batch = { stack: 0, sequences: Int32Array.of(sequence), offsets: Int32Array.of(0, tokens.length) };
    const logitRows = Int32Array.of(tokens.length - 1);
    const result = engine.runBatch({ ...batch, tokens: Int32Array.from(tokens), logitRows }, NOTHING_KNOWN);
    const ms = performance.now() - started;
    const { logits, stats } = result;
    for (const [expert, state] of result.found.entries()) if (state !== EXPERT_UNUSED) needed.add(expert);
    digest.update(Buffer.from(logits.buffer, logits.byteOffset, logits.byteLength));
    if (!logits.every(Number.isFinite)) throw new Error('A logit is not finite');
    return { ms, ...stats };
  };
  const prompt = (sequence) =>
    Array.from({ length: Math.ceil(promptTokens / chunk) }, (_, i) =>
      run(ids.slice(i * chunk, Math.min((i + 1) * chunk, promptTokens)), sequence),
    );
  if (values['warm-prompt'] || values.bound) {
    prompt(2);
    engine.releaseSequences(Int32Array.of(2));
  }
  needed.clear();
  const prefill = prompt(1);
  const neededBytes = needed.size * engine.plan.block;
  const decoded = ids.slice(promptTokens).map((id) => run([id]));
  decoded.splice(0, warm);
  engine.checkIntegrity();
  const { budgetBytes, peakBytes, slots } = engine.usage();
  const sum = (name, runs) => runs.reduce((total, each) => total + each[name], 0);
  const result = {
    ...{ budget, budgetBytes, peakBytes, slots, experts: engine.plan.experts },
    ...{ promptMs: sum('ms', prefill), promptBytes: sum('bytesMoved', prefill), neededBytes },
    prefillTokensPerSecond: (promptTokens / sum('ms', prefill)) * 1000,
    decodeTokensPerSecond: 1000 / median(decoded.map(({ ms }) => ms)),
    bytesPerToken: sum('bytesMoved', decoded) / decoded.length,
    stallShare: sum('stallNs', decoded) / sum('passNs', decoded),
    hits: sum('resident', decoded) / sum('needed', decoded),
    ...(peer && { network: engine.usage().peers[0], byPeers: sum('peer', decoded) / sum('needed', decoded) }),
    logits: digest.digest('hex'),
  };
  engine.close();
  return result;
}

/** Bytes a second of two readers that leave the page cache out, as many as the engine needs to keep a disk busy. */
async function readRate(directory) {
  const file = join(directory, 'experts.sida');
  const [block, count] = [4 << 20, 384];
  const half = Math.floor(statSync(file).size / block / 2);
  const args = words`if=${file} of=/dev/null bs=${block} count=${Math.min(count, half)} iflag=direct`;
  const started = performance.now();
  await Promise.all([0, half].map((skip) => promisify(execFile)('dd', [...args, `skip=${skip}`])));
  return (2 * Math.min(count, half) * block * 1000) / (performance.now() - started);
}

if (values.only !== undefined) {
  process.once('message', (ids) =>
    process.send(measure(values.only, values['expert-peers'], ids), () => process.disconnect()),
  );
} else {
  const ids = readIds();
  const results = [];
  const packs = pack.split(',');
  const peers = values['expert-peers'] === undefined ? [''] : ['', values['expert-peers']];
  const places = packs.flatMap((dir) =>
    values.budgets.split(',').flatMap((budget) => peers.map((peer) => ({ dir, budget, peer }))),
  );
  const samples = places.map(() => []);
  for (let i = 0; i < Number(values.rounds) * places.length; i++) {
    const { dir, budget, peer } = places[i % places.length];
    const own = [...process.argv.slice(2), '--only', budget, '--pack', dir, '--expert-peers', peer];
    const child = fork(new URL(import.meta.url).pathname, own);
    child.send(ids);
    const result = await new Promise((resolve, reject) => {
      child.once('message', resolve);
      child.once('exit', (code) => code !== 0 && reject(new Error(`${budget}: the run ended with ${code}`)));
    });
    samples[i % places.length].push({
      ...(peer !== '' && { peer }),
      ...(packs.length > 1 && { pack: basename(dir) }),
      ...result,
    });
    const { slots, experts, decodeTokensPerSecond, bytesPerToken, logits } = result;
    const speed = `${decodeTokensPerSecond.toFixed(2)} tokens/s, ${formatBytes(Math.round(bytesPerToken))} a token`;
    const beside = peer === '' ? '' : `, peer ${peer}`;
    console.log(`${budget}${beside}: ${slots} of ${experts} slots, ${speed}, logits ${logits.slice(0, 16)}`);
  }
  results.push(...samples.map((of) => medians(of)));
  const reference = results.at(-1);
  if (values.bound) {
    const read = await readRate(packs[0]);
    for (const result of results) {
      const readMs = (result.neededBytes / read) * 1000;
      result.overBound = result.promptMs / Math.max(reference.promptMs, readMs);
      const of = `computing ${reference.promptMs.toFixed(0)}, one read ${readMs.toFixed(0)}`;
      console.log(
        `${result.budget}: prompt ${result.promptMs.toFixed(0)} ms, ${result.overBound.toFixed(2)} x its bound (${of})`,
      );
    }
  }
  const others = samples
    .flat()
    .filter(({ logits }) => logits !== reference.logits)
    .map(({ budget }) => budget);
  const identical = others.length === 0;
  const verdict = identical ? 'All logits are those' : `Of ${others.join(', ')} logits DIFFER from those`;
  console.log(`${verdict} of ${reference.budget}, bit for bit.`);
  const gpu = device === 'cuda' ? { gpu: loadAddon().cuda().device?.name } : {};
  if (values.save)
    writeResult(values.save, {
      ...scriptProvenance(),
      threads,
      device,
      activations,
      ...gpu,
      identical,
      results,
    });
  process.exitCode = identical ? 0 : 1;
}
