// How long is an encoder pass of ours beside Hugging Face transformers? The same checkpoint of a Switch-base shape
// (random weights), token ids and threads, batch 1, every expert in memory; a process each, sentence by sentence in
// turn. transformers visits the experts of a layer in a Python loop.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { readBenchInputs } from '../../dist/preparation/inputs.js';
import { LineProcess } from '../../dist/support/line-process.js';
import { MINI_DIRECTORY, REPOSITORY, SCRIPTS } from '../../dist/support/paths.js';
import { makeSwitchCheckpoint, sida } from '../../dist/support/processes.js';
import { scriptProvenance } from '../../dist/support/provenance.js';
import { nameOfSpeed, optionsOf, resultFile, scratchDirectory, words, writeResult } from '../../dist/support/script.js';
import { tokenizerOf } from '../../dist/support/sst2.js';
import { median, quantile } from '../../dist/support/statistics.js';
import { StepProgress } from '../../dist/support/step-progress.js';

const HELP = `node bench/scripts/peers/encoder-peers.mjs [options]
  --dtypes f32,bf16,int8,int4  types of our weights, one comparison each; bf16:bf16 and int8:int8 also round
                         activations
  --lengths sst2         or multirc, which needs --data
  --data DIR             texts of the tasks
  --rounds 10            measured rounds; each runs every input on both sides
  --per-class 3          inputs of a length class
  --threads 2            threads of each side
  --experts 64 --layers 12   shape of the checkpoint (d 768, ff 3072, vocabulary 8000, a decoder of one dense layer)
  --peer-dtype float32   or bfloat16
  --dir DIR              where checkpoint and packs are made and used again (64 experts: 7.5 GB, a pack of f32 as much)
  --device cpu --budget 100% --save encoder-peers  below 100% accelerate gives the peer the bytes of our weights
  --quick (--rounds 3 --experts 4 --layers 4)  the result goes to build/
Needs Python with PyTorch and transformers: sh bench/scripts/peers/make-venv.sh, or SIDA_PEERS_PYTHON names one.
Comparisons land one by one in bench/results/encoder-peers.json, with AMX encoder-peers-amx.json; those of an earlier
run with the same shape stay.`;

const options = optionsOf(HELP);
const { quick, lengths, data, rounds, experts, layers, threads, device, budget, 'peer-dtype': peerDtype } = options;
const VENV = `${REPOSITORY}build/peers-venv/bin/python`;
const python = process.env.SIDA_PEERS_PYTHON ?? (existsSync(VENV) ? VENV : 'python3');
const MAX_TOKENS = 512;
const WARM_UP = 2;
/** Both sides' threads spin for a while after their work: the other side must not pay for it. */
const PAUSE_MS = 20;
/** f32 on both sides sums in other orders. */
const TOLERANCE = 1e-4;
/** What a pack keeps its dense weights in, by the type of its experts. */
const DENSE = { f32: 'f32', bf16: 'bf16', int8: 'int8', int4: 'int8' };
/** Tokens, both ends included. */
const CLASSES = { sst2: [[8, 16], [17, 32], [33, 64]],
  multirc: [[200, 299], [300, 399], [400, 500]],
}; // biome-ignore format: a table
/** Inputs of a class that are looked at for each that is taken. */
const CANDIDATES = 16;

const dir = options.dir ?? scratchDirectory();
mkdirSync(dir, { recursive: true });
const checkpoint = join(dir, `switch-base-${experts}-l${layers}`);

async function packOf(dtype) {
  if (!existsSync(join(checkpoint, 'config.json'))) {
    const shape = words`--experts ${experts} --layers ${layers} --decoder-layers 1 --vocab 8000 --dtype f32`;
    await makeSwitchCheckpoint(checkpoint, shape);
  }
  const pack = `${checkpoint}-${dtype}.pack`;
  if (existsSync(join(pack, 'manifest.json'))) return pack;
  console.error(`packing ${basename(pack)}`);
  await sida(words`convert ${checkpoint} --out ${pack} --experts ${dtype} --dense ${DENSE[dtype]}`);
  return pack;
}

/** Token ids of inputs of each length class, at even steps of length among the first that fit. */
async function inputsByLength() {
  const perClass = options['per-class'];
  const tokenizer = tokenizerOf(MINI_DIRECTORY, 8000);
  const read = await readBenchInputs(lengths, { directory: data, sentences: 2000, trainingSentences: 1 });
  const encoded = read.texts.map((text) => Array.from(tokenizer.encode(text)));
  return CLASSES[lengths].map(([least, most]) => {
    const fits = encoded.filter(({ length }) => length >= least && length <= most).slice(0, CANDIDATES * perClass);
    if (fits.length < perClass) throw new Error(`${fits.length} inputs of ${least} to ${most} tokens`);
    fits.sort((a, b) => a.length - b.length);
    const step = fits.length / perClass;
    return {
      least,
      most,
      inputs: Array.from({ length: perClass }, (_, i) => fits[Math.floor((i + 0.5) * step)]),
    };
  });
}

/** Largest distance of two outputs over their length; throws where f32 is not the peer's f32. */
async function compareOutputs(ours, peer, classes, exact) {
  const scratch = scratchDirectory();
  const floats = (file) => new Float32Array(readFileSync(file).buffer.slice(0));
  let worst = 0;
  for (const tokens of classes.flatMap(({ inputs }) => inputs)) {
    const files = [join(scratch, 'ours'), join(scratch, 'theirs')];
    await ours.ask({ tokens, hidden: files[0] });
    await peer.ask({ tokens, hidden: files[1] });
    const [a, b] = files.map(floats);
    const distance = Math.hypot(...b.map((value, i) => a[i] - value)) / Math.hypot(...b);
    worst = Math.max(worst, distance);
    if (exact && distance > TOLERANCE) throw new Error(`hidden states differ by ${distance} of their length`);
  }
  return worst;
}

/** Figures of every class, from milliseconds of both sides for every input and round. */
async function measure(ours, peer, classes, title) {
  const samples = classes.map(({ inputs }) => inputs.map(() => ({ ours: [], peer: [], expertsNeeded: 0 })));
  const progress = new StepProgress(title, rounds + WARM_UP);
  for (let round = -WARM_UP; round < rounds; round++) {
    for (const [c, { inputs }] of classes.entries()) {
      for (const [i, tokens] of inputs.entries()) {
        const sides = Object.entries({ ours, peer });
        for (const [name, side] of round % 2 === 0 ? sides : sides.reverse()) {
          await pause(PAUSE_MS);
          const { ms, expertsNeeded } = await side.ask({ tokens });
          if (round >= 0) samples[c][i][name].push(ms);
          if (name === 'ours') samples[c][i].expertsNeeded = expertsNeeded;
        }
      }
    }
    progress.step();
  }
  return classes.map(({ least, most, inputs }, c) => {
    const own = samples[c];
    const all = (key) => own.flatMap((sample) => sample[key]);
    const ratios = own.flatMap((sample) => sample.peer.map((ms, round) => ms / sample.ours[round]));
    return {
      ...{ least, most, tokens: inputs.map((tokens) => tokens.length) },
      ...{ oursMs: median(all('ours')), peerMs: median(all('peer')), ratio: median(ratios) },
      ratioQuartiles: [quantile(ratios, 0.25), quantile(ratios, 0.75)],
      expertsNeeded: median(own.map(({ expertsNeeded }) => expertsNeeded)),
    };
  });
}

/** Puts a comparison in the place of an earlier one of the same kind. */
function land(about, comparison) {
  const name = device === 'cuda' ? options.save : nameOfSpeed(options.save, about.isa);
  const file = resultFile(name, quick);
  const earlier = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : { comparisons: [] };
  const same = ['shape', 'threads', 'machine'].every((key) => earlier[key] === about[key]);
  const key = (one) => [one.dtype, one.activations, one.peerDtype, one.lengths].join();
  const others = (same ? earlier.comparisons : []).filter((other) => key(other) !== key(comparison));
  writeResult(name, { ...about, comparisons: [...others, comparison] }, quick);
}

async function compare(text, classes) {
  const [dtype, activations = 'f32'] = text.split(':');
  const given = { pack: await packOf(dtype), threads, activations, maxTokens: MAX_TOKENS, device, budget };
  const [own, theirs] = ['encoder-process.mjs', 'transformers_encoder.py'].map((name) => `${SCRIPTS}peers/${name}`);
  const ours = new LineProcess('our encoder', 'node', [own, JSON.stringify(given)]);
  const env = { ...process.env, HF_HUB_DISABLE_PROGRESS_BARS: '1', HF_HUB_OFFLINE: '1' };
  const { isa, weightBytes } = await ours.next();
  const peerArgs = words`${theirs} --model ${checkpoint} --dtype ${peerDtype} --threads ${threads} --device ${device}`;
  if (budget !== '100%') peerArgs.push('--bytes', String(weightBytes));
  const peer = new LineProcess('transformers', python, peerArgs, { env });
  try {
    const about = await peer.next();
    const exact = dtype === 'f32' && activations === 'f32' && peerDtype === 'float32';
    const outputError = await compareOutputs(ours, peer, classes, exact);
    const figures = await measure(ours, peer, classes, `${dtype} × ${activations}, ${lengths}`);
    const { command, commit, machine, node } = scriptProvenance();
    const shape = `Switch-base-${experts} encoder, ${layers} layers, d 768, ff 3072, vocabulary 8000`;
    const question = 'How long is an encoder pass of ours beside Hugging Face transformers?';
    land(
      { question, machine, isa, threads, weights: 'random', shape, commit },
      {
        ...{ device, budget, dtype, activations, peerDtype, lengths, command, commit, node },
        ...{ peer: about, rounds, outputError, classes: figures },
      },
    );
  } finally {
    await Promise.all([ours.close(), peer.close()]);
  }
}

if (spawnSync(python, ['-c', 'import torch, transformers'], { stdio: 'ignore' }).status !== 0) {
  console.error('SKIPPED: no transformers to compare with: sh bench/scripts/peers/make-venv.sh');
  process.exit(0);
}
const classes = await inputsByLength();
for (const text of options.dtypes.split(',')) await compare(text, classes);
