// What a trained hash function is worth and costs, measured in the same way for each kind: hits and α error on
// held-out traces, and the milliseconds of a sentence's table.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { loadAddon } from '../../../dist/native/addon.js';
import { openPredictor } from '../../../dist/predictor/predictor-directory.js';
import { Teacher } from '../../../dist/predictor/teacher.js';
import { hitRates, inputOf } from '../../../dist/predictor/training/hit-rates.js';
import { tableK } from '../../../dist/protocol/hash-table.js';
import { EMBEDDING } from '../../../dist/trace/embedding.js';
import { median } from '../../dist/support/statistics.js';

const WARM_UP = 5;
const SENTENCES = 40;
const ROUNDS = 5;

/** Milliseconds of one thread for the table of a sentence in the first stack: the median over the sentences. */
function tableMs(hash, { shape, records }) {
  const k = tableK(shape);
  const time = (record) => {
    const input = inputOf([record], 0, shape);
    const entries = shape.stacks[0].layers * input.tokens.length * k;
    const arrays = [new Uint16Array(entries), new Float32Array(entries), new Float32Array(entries)];
    const begin = performance.now();
    if (!hash.fill(0, input, k, ...arrays)) throw new Error(`${hash.name} cannot fill a table`);
    return performance.now() - begin;
  };
  for (const record of records.slice(0, WARM_UP)) time(record);
  // The best round of a sentence: other work on the machine only ever slows.
  return median(records.map((record) => Math.min(...Array.from({ length: ROUNDS }, () => time(record)))));
}

/** Elements of the tensors in a safetensors file. */
function elementsOf(path) {
  const bytes = readFileSync(path);
  const header = JSON.parse(bytes.subarray(8, 8 + Number(bytes.readBigUInt64LE())).toString());
  return Object.entries(header)
    .filter(([name]) => name !== '__metadata__')
    .reduce((sum, [, { shape }]) => sum + shape.reduce((product, size) => product * size, 1), 0);
}

/** Weights of the networks of all stacks, or entries of the token table. */
function parametersOf(directory, kind) {
  if (kind === 'token') return elementsOf(join(directory, 'token.safetensors'));
  const networks = readdirSync(join(directory, kind), { recursive: true });
  return networks
    .filter((name) => /predictor-.*\.safetensors$/.test(name))
    .reduce((sum, name) => sum + elementsOf(join(directory, kind, name)), 0);
}

/** The held-out traces: what every function is measured on. */
export async function heldOutOf(traces) {
  const { TokenEmbedding } = loadAddon();
  const openEmbedding = () => new TokenEmbedding({ file: join(traces[0], EMBEDDING) });
  const embedding = openEmbedding();
  const { vocab, dModel } = embedding;
  embedding.close();
  const teacher = await Teacher.open(traces, vocab);
  const records = [];
  let [inputs, tokens] = [0, 0];
  for await (const record of teacher.records()) {
    inputs += 1;
    tokens += record.stacks.reduce((sum, stack) => sum + stack.tokens.length, 0);
    if (records.length < SENTENCES && record.stacks[0].tokens.length > 0) records.push(record);
  }
  if (records.length < 20) throw new Error(`${traces.join(', ')}: fewer than 20 sentences to time tables of`);
  const { shape, metas } = teacher;
  return { teacher, openEmbedding, vocab, dModel, shape, meta: metas[0], records, inputs, tokens };
}

/** Opens one function of a directory, measures it, and closes it. */
export async function measureFunction(directory, kind, heldOut) {
  const { teacher, openEmbedding, vocab, dModel, shape, meta } = heldOut;
  const { experts, topK, normalized, layers } = meta;
  const { function: hash, warnings } = await openPredictor(directory, {
    model: {
      stacks: shape.stacks.map((stack) => ({ ...stack, moeLayers: Array.from({ length: stack.layers }) })),
      moeLayers: layers,
      ...{ experts, topK, normalized, vocabSize: vocab, width: dModel },
    },
    weights: meta.model.weights,
    addon: loadAddon(),
    embedding: openEmbedding,
    kind,
    threads: 1,
  });
  if (warnings.length > 0) throw new Error(warnings.join('; '));
  try {
    const perLayer = (await hitRates(hash, teacher)).map(({ hits, tokens, ...rest }) => ({
      ...rest,
      tokens,
      hits: hits.map((count) => count / (tokens * topK)),
    }));
    const mean = (of) => perLayer.reduce((sum, layer) => sum + of(layer), 0) / perLayer.length;
    return {
      first: mean(({ hits }) => hits[0]),
      last: mean(({ hits }) => hits.at(-1)),
      alpha: mean(({ alpha }) => alpha),
      alphaError: mean(({ alphaError }) => alphaError),
      tableMs: tableMs(hash, heldOut),
      parameters: parametersOf(directory, kind),
      layers: perLayer,
    };
  } finally {
    hash.close();
  }
}
