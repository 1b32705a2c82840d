// How long does `sida train` take on this machine, and how far do its networks come on the way from the token table to
// 100 % of hits?
import { join } from 'node:path';
import { sida } from '../dist/support/processes.js';
import { scriptProvenance } from '../dist/support/provenance.js';
import { optionsOf, scratchDirectory, words, writeResult } from '../dist/support/script.js';

const HELP = `node bench/scripts/train-time.mjs [--trace DIR…] [--held-out DIR] [--network lstm] [--threads 2]
  [--seed 1] [--out DIR]
The traces are those of \`sida trace\`. What is reported is the whole command. --out keeps the predictor. The result
is bench/results/train-time.json.`;

const { trace, 'held-out': heldOut, network, threads, seed, out } = optionsOf(HELP);
if (trace.length === 0 || heldOut === undefined) throw new Error('--trace DIR and --held-out DIR are required');

const directory = out ?? join(scratchDirectory(), 'predictor');
const begin = performance.now();
const flags = words`--held-out ${heldOut} --out ${directory} --network ${network} --seed ${seed} --threads ${threads}`;
const printed = await sida(['train', ...trace, ...flags, '--json'], { showErrors: true });
const minutes = (performance.now() - begin) / 60_000;
const { heldOut: measured, trainedOn, endedBefore } = JSON.parse(printed);
if (endedBefore) throw new Error(`${directory} was trained before: its time is not known`);
const rows = measured[network].map(({ layer, hits }) => {
  const token = measured.token.find((own) => own.layer === layer).hits;
  const way = [0, 2].map((i) => (hits[i] - token[i]) / (1 - token[i]));
  return { layer, token: [token[0], token[2]], hits: [hits[0], hits[2]], way };
});
writeResult('train-time', {
  question: 'How long does `sida train` take, and how far does it come from the token table to 100 %?',
  ...scriptProvenance(),
  ...{ network, threads, seed, minutes, trainedOn, rows },
});
console.log(`${minutes.toFixed(1)} minutes with ${threads} threads`);
