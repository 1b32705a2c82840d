// How does the time of an MoE layer's experts grow with the number of active experts? The same tokens spread evenly
// over them, by element type: table 1 of "Who Says Elephants Can't Run".
import { buildNativeBench, runNativeBench } from '../dist/support/native-bench.js';
import { scriptProvenance } from '../dist/support/provenance.js';
import { optionsOf, writeResult } from '../dist/support/script.js';

const HELP = `node bench/scripts/active-experts.mjs [--active 1,2,4,8,16,32] [--tokens 40] [--shape 1024,4096]
  [--threads 2] [--rounds 10] [--megabytes 1152] [--quick (--rounds 2)]
Builds and runs native/bench/active_experts_bench.cc. The result is bench/results/active-experts.json.`;

const { active, tokens, shape, threads, rounds, megabytes, quick } = optionsOf(HELP);
const [dModel, dFf] = shape.split(',').map(Number);
const args = [dModel, dFf, tokens, threads, rounds, megabytes, active];
const runs = runNativeBench(buildNativeBench('active_experts_bench'), args);
writeResult(
  'active-experts',
  {
    question: 'How does the time of an MoE layer’s experts grow with the number of active experts?',
    ...scriptProvenance(),
    ...{ dModel, dFf, tokens, threads, rounds },
    weights: 'random',
    control: 'f32 weights: the same rows, experts and order',
    runs,
  },
  quick,
);
