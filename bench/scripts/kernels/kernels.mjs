// How near are the experts' kernels to the machine's limits? Builds native/bench/expert_bench.cc and runs it with one
// thread and with two; every round measures the limits again beside the kernels.
//   node bench/scripts/kernels/kernels.mjs [--rounds 12] [--megabytes 256]
// writes bench/results/kernels.json, with AMX kernels-amx.json.
// Sets of kernels beside each other, one after the other in each round:
//   node bench/scripts/kernels/kernels.mjs --isa avx512vnni,avx512amx [--only 'x int8']
import { parseArgs } from 'node:util';
import { buildNativeBench, runNativeBench } from '../../dist/support/native-bench.js';
import { scriptProvenance } from '../../dist/support/provenance.js';
import { nameOfSpeed, writeResult } from '../../dist/support/script-result.js';
import { medians } from '../../dist/support/statistics.js';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '12' },
    megabytes: { type: 'string', default: '256' },
    isa: { type: 'string' },
    only: { type: 'string', default: '' },
  },
});

const bench = buildNativeBench('expert_bench');
const { megabytes, only } = values;

function measure(threads, rounds, isa) {
  const args = ['--threads', threads, '--rounds', rounds, '--megabytes', megabytes, '--json'];
  const [run] = runNativeBench(bench, [...args, ...(only === '' ? [] : ['--only', only])], { isa });
  if (isa !== undefined && run.isa !== isa) throw new Error(`this machine has no ${isa}: ${run.isa} ran`);
  return run;
}

/** Of runs of the same cases, the median of each figure. */
const together = (runs) => ({
  ...medians(runs),
  rounds: runs.length,
  cases: runs[0].cases.map((_, i) => medians(runs.map(({ cases }) => cases[i]))),
});

if (values.isa === undefined) {
  const runs = [1, 2].map((threads) => measure(threads, values.rounds));
  const [{ isa }] = runs;
  writeResult(nameOfSpeed('kernels', isa), { ...scriptProvenance(), isa, runs });
} else {
  const sets = values.isa.split(',');
  const runs = [1, 2].flatMap((threads) => {
    const rounds = Array.from({ length: Number(values.rounds) }, () =>
      sets.map((isa) => measure(threads, 1, isa)),
    );
    return sets.map((_, i) => together(rounds.map((round) => round[i])));
  });
  writeResult('kernel-sets', { ...scriptProvenance(), isa: sets.join(', '), runs });
}
