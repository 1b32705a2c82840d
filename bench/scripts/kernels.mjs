// How near are the experts' kernels to the machine's limits? Every round measures the limits again beside the kernels.
import { buildNativeBench, runNativeBench } from '../dist/support/native-bench.js';
import { scriptProvenance } from '../dist/support/provenance.js';
import { nameOfSpeed, optionsOf, writeResult } from '../dist/support/script.js';

const HELP = `node bench/scripts/kernels.mjs [--rounds 12] [--megabytes 256] [--isa SET] [--only PATTERN] [--save NAME]
Builds native/bench/expert_bench.cc and runs it with one thread and with two. --isa names another set of kernels than
the widest, such as avx512vnni. The result is bench/results/kernels.json, with AMX kernels-amx.json.`;

const { rounds, megabytes, isa, only, save } = optionsOf(HELP);
const bench = buildNativeBench('expert_bench');
const runs = [1, 2].flatMap((threads) => {
  const args = ['--threads', threads, '--rounds', rounds, '--megabytes', megabytes, '--json'];
  return runNativeBench(bench, [...args, ...(only === undefined ? [] : ['--only', only])], { isa });
});
const [{ isa: used }] = runs;
if (isa !== undefined && used !== isa) throw new Error(`this machine has no ${isa}: ${used} ran`);
writeResult(save ?? nameOfSpeed('kernels', used), { ...scriptProvenance(), isa: used, runs });
