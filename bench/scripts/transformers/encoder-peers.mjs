// How long is an encoder pass of ours beside Hugging Face transformers? The same checkpoint of a Switch-base shape
// (random weights), token ids and threads, batch 1, every expert in memory; a process each, sentence by sentence in
// turn. transformers computes in float32, its faster type on a CPU without AMX, or in bfloat16. It visits the experts
// of a layer in a Python loop.

import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { LineProcess } from '../../dist/support/line-process.js';
import { buildNativeBench, runNativeBench } from '../../dist/support/native-bench.js';
import { makeSwitchCheckpoint, sida } from '../../dist/support/processes.js';
import { scriptProvenance } from '../../dist/support/provenance.js';
import { nameOfSpeed, resultFile, writeResult } from '../../dist/support/script-result.js';
import { median, quantile } from '../../dist/support/statistics.js';
import { StepProgress } from '../../dist/support/step-progress.js';
import { passFlops, weightBytes } from './encoder-work.mjs';
import { inputsByLength } from './sentence-lengths.mjs';

const HELP = `node bench/scripts/transformers/encoder-peers.mjs [options]
  --dtypes f32,bf16,int8,int4   types of our weights, one comparison each; bf16:bf16 and int8:int8 also round
                         activations
  --lengths sst2         sst2, multirc or both: length classes of these data sets
  --data DIR             holds multirc/validation.jsonl and multirc/validation.passages.jsonl; for --lengths multirc
  --rounds 10            measured rounds; each runs every input on both sides
  --per-class 3          inputs of a length class
  --threads 2            threads of each side
  --experts 64 --layers 12   shape of the checkpoint (d 768, ff 3072, vocabulary 8000, a decoder of one dense layer)
  --peer-dtype float32   or bfloat16
  --dir DIR              where checkpoint and packs are made and used again (64 experts: 7.5 GB, a pack of f32 as much)
  --quick                a small shape and three rounds: shows that it runs; the result goes to build/
Needs Python with PyTorch and transformers: sh bench/scripts/transformers/make-venv.sh, which it calls where there is none.
Comparisons land one by one in bench/results/encoder-peers.json, with AMX encoder-peers-amx.json; those of an earlier
run with the same shape stay.`;

const { values } = parseArgs({
  options: {
    help: { type: 'boolean', default: false },
    quick: { type: 'boolean', default: false },
    dtypes: { type: 'string', default: 'f32,bf16,int8,int4' },
    lengths: { type: 'string', default: 'sst2' },
    data: { type: 'string' },
    rounds: { type: 'string' },
    'per-class': { type: 'string', default: '3' },
    threads: { type: 'string', default: '2' },
    experts: { type: 'string' },
    layers: { type: 'string' },
    'peer-dtype': { type: 'string', default: 'float32' },
    dir: { type: 'string' },
  },
});
if (values.help) {
  console.log(HELP);
  process.exit(0);
}
const { quick } = values;
const rounds = Number(values.rounds ?? (quick ? 3 : 10));
const experts = values.experts ?? (quick ? '4' : '64');
const layers = values.layers ?? (quick ? '4' : '12');
const threads = Number(values.threads);
const list = (text) => text.split(',').map((part) => part.trim());
const DATA_SETS = ['sst2', 'multirc'];
const kinds = values.lengths === 'both' ? DATA_SETS : list(values.lengths);
const unknown = kinds.find((kind) => !DATA_SETS.includes(kind));
if (unknown !== undefined) throw new Error(`--lengths is ${DATA_SETS.join(', ')} or both, found ${unknown}`);
if (kinds.includes('multirc') && values.data === undefined)
  throw new Error('--lengths multirc needs --data DIR');

const PYTHON = 'build/peers-venv/bin/python';
const MAX_TOKENS = 512;
const WARM_UP = 2;
/** Both sides' threads spin for a while after their work: the other side must not pay for it. */
const PAUSE_MS = 20;
/** f32 on both sides sums in other orders. */
const TOLERANCE = 1e-4;
/** What a pack keeps its dense weights in, by the type of its experts. */
const DENSE = { f32: 'f32', bf16: 'bf16', int8: 'int8', int4: 'int8' };

function peerIsThere() {
  const works = () =>
    spawnSync(PYTHON, ['-c', 'import torch, transformers'], { stdio: 'ignore' }).status === 0;
  if (works()) return true;
  console.error('no transformers in build/peers-venv: sh bench/scripts/transformers/make-venv.sh');
  const made = spawnSync('sh', ['bench/scripts/transformers/make-venv.sh'], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  return made.status === 0 && works();
}

if (!peerIsThere()) {
  console.error('\nSKIPPED: transformers could not be installed, so there is no peer to compare with.\n');
  process.exit(0);
}

const dir = values.dir ?? mkdtempSync(join(tmpdir(), 'sida-bench-'));
mkdirSync(dir, { recursive: true });
const checkpoint = join(dir, `switch-base-${experts}-l${layers}`);

async function makeCheckpoint() {
  if (existsSync(join(checkpoint, 'config.json'))) return;
  const shape = ['--experts', experts, '--layers', layers, '--decoder-layers', '1', '--vocab', '8000'];
  await makeSwitchCheckpoint(checkpoint, [...shape, '--dtype', 'f32']);
}

async function packOf(dtype) {
  const pack = `${checkpoint}-${dtype}.pack`;
  if (existsSync(join(pack, 'manifest.json'))) return pack;
  console.error(`packing ${basename(pack)}`);
  await sida(['convert', checkpoint, '--out', pack, '--experts', dtype, '--dense', DENSE[dtype]]);
  return pack;
}

/** A type of weights, and of activations behind a colon. */
function typesOf(text) {
  const [dtype, activations = 'f32'] = text.split(':');
  return { dtype, activations };
}

const floats = (file) => new Float32Array(readFileSync(file).buffer.slice(0));

/** Distance of two outputs over the length of the second. */
function relativeError(ours, theirs) {
  let distance = 0;
  let length = 0;
  for (let i = 0; i < theirs.length; i++) {
    distance += (ours[i] - theirs[i]) ** 2;
    length += theirs[i] ** 2;
  }
  return Math.sqrt(distance / length);
}

/** Largest error over the inputs; throws where f32 is not the peer's f32. */
async function compareOutputs(ours, peer, classes, { dtype, activations }) {
  const scratch = mkdtempSync(join(tmpdir(), 'sida-hidden-'));
  try {
    let worst = 0;
    for (const tokens of classes.flatMap(({ inputs }) => inputs)) {
      const [a, b] = [join(scratch, 'ours'), join(scratch, 'theirs')];
      await ours.ask({ tokens, hidden: a });
      await peer.ask({ tokens, hidden: b });
      const error = relativeError(floats(a), floats(b));
      worst = Math.max(worst, error);
      const alike = dtype === 'f32' && activations === 'f32' && values['peer-dtype'] === 'float32';
      if (!alike || error <= TOLERANCE) continue;
      throw new Error(
        `hidden states of ${tokens.length} tokens differ by ${error.toExponential(2)} of their length`,
      );
    }
    return worst;
  } finally {
    rmSync(scratch, { recursive: true });
  }
}

/** Milliseconds of both sides for every input of every class, (class, input, round). */
async function measure(ours, peer, classes, title) {
  const samples = classes.map(({ inputs }) => inputs.map(() => ({ ours: [], peer: [], expertsNeeded: 0 })));
  const progress = new StepProgress(title, rounds + WARM_UP);
  for (let round = -WARM_UP; round < rounds; round++) {
    for (const [c, { inputs }] of classes.entries()) {
      for (const [i, tokens] of inputs.entries()) {
        const sides = [
          ['ours', ours],
          ['peer', peer],
        ];
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
  return samples;
}

/** One length class in figures. */
function classFigures({ least, most, inputs }, samples, { shape, expertBytes, dense, limits }) {
  const all = (key) => samples.flatMap((sample) => sample[key]);
  const ratios = samples.flatMap((sample) => sample.peer.map((ms, round) => ms / sample.ours[round]));
  const shares = samples.map(({ ours, expertsNeeded }, i) => {
    const tokens = inputs[i].length;
    const seconds = median(ours) / 1000;
    const bytes = weightBytes(shape, { tokens, expertsNeeded, expertBytes, dense });
    return {
      bytes,
      read: bytes / seconds / limits.readBytesPerSecond,
      flops: passFlops(shape, tokens) / seconds / limits.fmaFlopsPerSecond,
    };
  });
  return {
    least,
    most,
    tokens: inputs.map((tokens) => tokens.length),
    oursMs: median(all('ours')),
    peerMs: median(all('peer')),
    ratio: median(ratios),
    oursQuartilesMs: [quantile(all('ours'), 0.25), quantile(all('ours'), 0.75)],
    peerQuartilesMs: [quantile(all('peer'), 0.25), quantile(all('peer'), 0.75)],
    ratioQuartiles: [quantile(ratios, 0.25), quantile(ratios, 0.75)],
    expertsNeeded: median(samples.map(({ expertsNeeded }) => expertsNeeded)),
    weightBytes: median(shares.map(({ bytes }) => bytes)),
    readShare: median(shares.map(({ read }) => read)),
    flopShare: median(shares.map(({ flops }) => flops)),
  };
}

function sameConditions(earlier, about) {
  return ['shape', 'threads', 'machine'].every((key) => earlier[key] === about[key]);
}

/** Puts a comparison in the place of an earlier one of the same kind. */
function land(about, comparison) {
  const name = nameOfSpeed('encoder-peers', about.isa);
  const file = resultFile(name, quick);
  const earlier = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : undefined;
  const key = ({ dtype, activations = 'f32', peerDtype, lengths }) =>
    [dtype, activations, peerDtype, lengths].join();
  const others = earlier !== undefined && sameConditions(earlier, about) ? earlier.comparisons : [];
  const comparisons = [...others.filter((other) => key(other) !== key(comparison)), comparison];
  writeResult(name, { ...about, comparisons }, quick);
}

const limitsBench = buildNativeBench('limits_bench');
const limitsNow = () => runNativeBench(limitsBench, [threads])[0];

async function compare(types) {
  const { dtype, activations } = types;
  const pack = await packOf(dtype);
  const options = JSON.stringify({ pack, threads, activations, maxTokens: MAX_TOKENS });
  const ours = new LineProcess('our encoder', 'node', [
    'bench/scripts/transformers/encoder-process.mjs',
    options,
  ]);
  let peer;
  try {
    const { shape, expertBytes, isa, residentBytes } = await ours.next();
    // biome-ignore format: a command line
    const args = ['bench/scripts/transformers/transformers_encoder.py', '--model', checkpoint, '--dtype', values['peer-dtype'], '--threads', String(threads)];
    peer = new LineProcess('transformers', PYTHON, args, {
      env: { ...process.env, HF_HUB_DISABLE_PROGRESS_BARS: '1', HF_HUB_OFFLINE: '1' },
    });
    const about = await peer.next();
    for (const kind of kinds) {
      const classes = inputsByLength(kind, values.data, Number(values['per-class']));
      const outputError = await compareOutputs(ours, peer, classes, types);
      const before = limitsNow();
      const samples = await measure(ours, peer, classes, `${dtype} × ${activations}, ${kind}`);
      const after = limitsNow();
      const limits = {
        readBytesPerSecond: Math.max(before.readBytesPerSecond, after.readBytesPerSecond),
        fmaFlopsPerSecond: Math.max(before.fmaFlopsPerSecond, after.fmaFlopsPerSecond),
      };
      const figures = { shape, expertBytes, dense: DENSE[dtype], limits };
      const { command, commit, machine: cpu, node } = scriptProvenance();
      land(
        {
          question: 'How long is an encoder pass of ours beside Hugging Face transformers?',
          machine: cpu,
          isa,
          threads,
          weights: 'random',
          shape: `Switch-base-${experts} encoder, ${layers} layers, d 768, ff 3072, vocabulary 8000`,
        },
        {
          ...types,
          peerDtype: values['peer-dtype'],
          lengths: kind,
          command,
          commit,
          node,
          peer: about,
          rounds,
          residentBytes,
          outputError,
          limits,
          classes: classes.map((each, c) => classFigures(each, samples[c], figures)),
        },
      );
    }
  } finally {
    await Promise.all([ours.close(), peer?.close()]);
  }
}

try {
  await makeCheckpoint();
  for (const text of list(values.dtypes)) await compare(typesOf(text));
} finally {
  if (values.dir === undefined) rmSync(dir, { recursive: true, force: true });
}
