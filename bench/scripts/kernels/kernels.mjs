// How near are the experts' kernels to the machine's limits? Builds native/bench/expert_bench.cc and runs it with one
// thread and with two; every round measures the limits again beside the kernels.
//   node bench/scripts/kernels/kernels.mjs [--rounds 12] [--megabytes 256]
// writes bench/results/kernels.json, with AMX kernels-amx.json.
// Sets of kernels beside each other:
//   node bench/scripts/kernels/kernels.mjs --isa avx512vnni,avx512amx [--only 'x int8']
import { parseArgs } from 'node:util';
import { buildNativeBench, runNativeBench } from '../../dist/support/native-bench.js';
import { scriptProvenance } from '../../dist/support/provenance.js';
import { nameOfSpeed, writeResult } from '../../dist/support/script-result.js';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '12' },
    megabytes: { type: 'string', default: '256' },
    isa: { type: 'string' },
    only: { type: 'string', default: '' },
  },
});

const bench = buildNativeBench('expert_bench');
const sets = values.isa?.split(',') ?? [undefined];
const runs = [1, 2].flatMap((threads) =>
  sets.map((isa) => {
    const { rounds, megabytes, only } = values;
    const args = ['--threads', threads, '--rounds', rounds, '--megabytes', megabytes, '--json'];
    const [run] = runNativeBench(bench, [...args, ...(only === '' ? [] : ['--only', only])], { isa });
    if (isa !== undefined && run.isa !== isa) throw new Error(`this machine has no ${isa}: ${run.isa} ran`);
    return run;
  }),
);
const [{ isa }] = runs;
if (values.isa === undefined) writeResult(nameOfSpeed('kernels', isa), { ...scriptProvenance(), isa, runs });
else writeResult('kernel-sets', { ...scriptProvenance(), isa: sets.join(', '), runs });
