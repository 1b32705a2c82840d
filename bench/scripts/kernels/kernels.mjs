// How near are the experts' kernels to the machine's limits? Builds native/bench/expert_bench.cc and runs it with one
// thread and with two; every round measures the limits again beside the kernels.
//   node bench/scripts/kernels/kernels.mjs [--rounds 12] [--megabytes 256] [--build build/native]
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { commandText, machine } from '../bench-result.mjs';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '12' },
    megabytes: { type: 'string', default: '256' },
    build: { type: 'string', default: 'build/native' },
  },
});

const quiet = { stdio: ['ignore', 'ignore', 'inherit'] };
const configure = ['-S', 'native', '-B', values.build, '-DSIDA_BENCHES=ON', '-DCMAKE_BUILD_TYPE=Release'];
execFileSync('cmake', configure, quiet);
const parallel = String(availableParallelism());
execFileSync('cmake', ['--build', values.build, '--target', 'expert_bench', '--parallel', parallel], quiet);

const runs = [1, 2].map((threads) => {
  const args = ['--threads', String(threads), '--rounds', values.rounds, '--megabytes', values.megabytes];
  return JSON.parse(
    execFileSync(join(values.build, 'expert_bench'), [...args, '--json'], { encoding: 'utf8' }),
  );
});
const report = { command: commandText('kernels.mjs'), ...machine(), isa: runs[0].isa, runs };
writeFileSync('bench/results/kernels.json', `${JSON.stringify(report, null, 2)}\n`);
