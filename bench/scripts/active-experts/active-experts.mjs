// How does the time of an MoE layer's experts grow with the number of active experts? The same 40 tokens spread evenly
// over 1 to 32 experts of 1024 × 4096, by element type: table 1 of "Who Says Elephants Can't Run". Builds
// native/bench/active_experts_bench.cc and runs it.
//   node bench/scripts/active-experts/active-experts.mjs [--active 1,2,4,8,16,32] [--tokens 40] [--shape 1024,4096]
//     [--threads 2] [--rounds 10] [--megabytes 1152] [--quick]
import { parseArgs } from 'node:util';
import { buildNativeBench, runNativeBench } from '../../dist/support/native-bench.js';
import { REPOSITORY } from '../../dist/support/paths.js';
import { scriptProvenance } from '../../dist/support/provenance.js';
import { writeResult } from '../../dist/support/script-result.js';

const { values } = parseArgs({
  options: {
    active: { type: 'string', default: '1,2,4,8,16,32' },
    tokens: { type: 'string', default: '40' },
    shape: { type: 'string', default: '1024,4096' },
    threads: { type: 'string', default: '2' },
    rounds: { type: 'string', default: '10' },
    megabytes: { type: 'string', default: '1152' },
    quick: { type: 'boolean', default: false },
  },
});
process.chdir(REPOSITORY);
const { quick, tokens, threads, active } = values;
const [dModel, dFf] = values.shape.split(',').map(Number);
const rounds = quick ? '2' : values.rounds;

const bench = buildNativeBench('active_experts_bench');
const args = [dModel, dFf, tokens, threads, rounds, values.megabytes, active];
const runs = runNativeBench(bench, args);
writeResult(
  'active-experts',
  {
    question: 'How does the time of an MoE layer’s experts grow with the number of active experts?',
    ...scriptProvenance(),
    ...{ dModel, dFf, tokens: Number(tokens), threads: Number(threads), rounds: Number(rounds) },
    weights: 'random',
    control: 'f32 weights: the same rows, experts and order',
    runs,
  },
  quick,
);
