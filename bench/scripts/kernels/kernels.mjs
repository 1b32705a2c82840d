// How near are the experts' kernels to the machine's limits? Builds native/bench/expert_bench.cc and runs it with one
// thread and with two; every round measures the limits again beside the kernels.
//   node bench/scripts/kernels/kernels.mjs [--rounds 12] [--megabytes 256]
import { parseArgs } from 'node:util';
import { buildNativeBench, runNativeBench } from '../../dist/support/native-bench.js';
import { scriptProvenance } from '../../dist/support/provenance.js';
import { writeResult } from '../../dist/support/script-result.js';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '12' },
    megabytes: { type: 'string', default: '256' },
  },
});

const bench = buildNativeBench('expert_bench');
const runs = [1, 2].map((threads) => {
  const { rounds, megabytes } = values;
  const args = ['--threads', threads, '--rounds', rounds, '--megabytes', megabytes, '--json'];
  return runNativeBench(bench, args)[0];
});
writeResult('kernels', { ...scriptProvenance(), isa: runs[0].isa, runs });
