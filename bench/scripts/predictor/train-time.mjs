// How long does a good predictor take on this machine? `sida train` with the defaults of a kind of network, from traces
// to a finished directory, against its targets: half of the way from the token table to 100 %, top-1 and top-3.
//   node bench/scripts/predictor/train-time.mjs --trace DIR --held-out DIR [--network lstm] [--threads 2]
//     [--out DIR]
// --max-minutes bounds the networks' training; what is reported is the whole command. --out keeps the predictor.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { sida } from '../../dist/support/processes.js';
import { scriptProvenance } from '../../dist/support/provenance.js';
import { resultFile, writeResult } from '../../dist/support/script-result.js';

const { values } = parseArgs({
  options: {
    trace: { type: 'string', multiple: true },
    'held-out': { type: 'string' },
    network: { type: 'string', default: 'lstm' },
    threads: { type: 'string', default: '2' },
    seed: { type: 'string', default: '1' },
    out: { type: 'string' },
  },
});
if (!values.trace || !values['held-out']) throw new Error('--trace DIR and --held-out DIR are required');

/** Token-weighted means over layers: shares of the tokens whose expert is among the best 1, 2, 3. */
function overall(layers) {
  const tokens = layers.reduce((sum, layer) => sum + layer.tokens, 0);
  return [0, 1, 2].map((i) => layers.reduce((sum, { tokens: n, hits }) => sum + n * hits[i], 0) / tokens);
}

/** Where the networks stand on the way from the token table (0) to 100 % (1), by hits top-1 and top-3. */
function compare(layer, hits, token) {
  const way = (i) => (hits[i] - token[i]) / (1 - token[i]);
  const target = (i) => (1 + token[i]) / 2;
  return {
    layer,
    token: [token[0], token[2]],
    target: [target(0), target(2)],
    hits: [hits[0], hits[2]],
    way: [way(0), way(2)],
    reached: [way(0) >= 0.5, way(2) >= 0.5],
  };
}

const dir = mkdtempSync(join(tmpdir(), 'sida-bench-'));
try {
  const out = values.out ?? join(dir, 'predictor');
  const options = ['--network', values.network, '--seed', values.seed];
  const limits = [...options, '--threads', values.threads];
  const begin = performance.now();
  const data = [...values.trace, '--held-out', values['held-out'], '--out', out];
  const printed = await sida(['train', ...data, ...limits, '--json'], { showErrors: true });
  const minutes = (performance.now() - begin) / 60_000;
  const { heldOut, trainedOn, endedBefore, layers } = JSON.parse(printed);
  if (endedBefore) throw new Error(`${out} was trained before: its time is not known`);
  const predicted = layers.filter((name) => heldOut[values.network].some(({ layer }) => layer === name));
  const of = (kind, name) => heldOut[kind].find(({ layer }) => layer === name);
  const only = (kind) => heldOut[kind].filter(({ layer }) => predicted.includes(layer));
  const result = {
    question: 'How long does `sida train` take to half of the way from the token table to 100 %?',
    ...scriptProvenance(),
    network: values.network,
    threads: Number(values.threads),
    seed: Number(values.seed),
    minutes,
    trainedOn,
    rows: [
      ...predicted.map((name) => compare(name, of(values.network, name).hits, of('token', name).hits)),
      compare('all, by token', overall(only(values.network)), overall(only('token'))),
    ],
  };
  writeResult('train-time', result);
  const percent = (share) => `${(100 * share).toFixed(1)} %`;
  for (const { layer, token, target, hits } of result.rows) {
    const pair = (shares) => shares.map(percent).join(' / ');
    console.log(
      `${layer.padEnd(14)} token ${pair(token)}, target ${pair(target)}, ${values.network} ${pair(hits)}`,
    );
  }
  console.log(`${minutes.toFixed(1)} minutes with ${values.threads} threads; ${resultFile('train-time')}`);
} finally {
  rmSync(dir, { recursive: true, force: true });
}
