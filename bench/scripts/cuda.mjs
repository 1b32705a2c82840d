// Everything that is measured on a GPU, in one command that fits ten minutes, the most valuable first: limits of the
// machine and kernels beside them by the native benches, then `sida bench --device cuda`.
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { BENCH_FILE } from '../dist/report/bench-file.js';
import { gpuIdentity, readGpu } from '../dist/runs/gpu.js';
import { buildNativeBench, runNativeBench } from '../dist/support/native-bench.js';
import { LABORATORY } from '../dist/support/paths.js';
import { scriptProvenance } from '../dist/support/provenance.js';
import { optionsOf } from '../dist/support/script.js';

const HELP = `npm run bench:cuda -- [options]
  --minutes N      hard limit, builds and packing included, default 10
  --prepare        build the native benches, write packs and train predictors, measure nothing; at most 120 minutes
  --only PATTERN…  measurements of \`sida bench --device cuda --list\`; repeatable
  --sentences N    inputs of a measurement, in place of 192 / 128 / 64 for SST-2 / MRPC / MultiRC
  --data DIR       holds sst2/, mrpc/, multirc/; SST-2's validation set is bundled, the others are left out without
  --work build/bench-cuda  packs, traces and predictors, up to 52 GB
  --out bench/results/cuda
  --skip-native    neither machine limits nor kernels
A run that ended continues where it stopped when it is started again. Needs cmake, nvcc and
a driver. Ends with 2 where there is no GPU.`;

const values = optionsOf(HELP);
const begun = performance.now();
const minutes = values.minutes ?? (values.prepare ? 120 : 10);
const secondsLeft = () => Math.max(0, minutes * 60 - (performance.now() - begun) / 1000);
const file = join(values.out, 'cuda.json');

async function gpuOrEnd() {
  try {
    return await readGpu();
  } catch (error) {
    console.error(`NOTHING WAS MEASURED: ${error.message}`);
    return process.exit(2);
  }
}

function save(report) {
  mkdirSync(values.out, { recursive: true });
  writeFileSync(`${file}.tmp`, `${JSON.stringify(report)}\n`);
  renameSync(`${file}.tmp`, file);
}

/** By name of the report's part: the bench, and the most of the time that it may take. */
const NATIVE = {
  limits: ['cuda_limits_bench', 0.05],
  gemm: ['cuda_gemm_bench', 0.15],
  rows: ['cuda_rows_bench', 0.1],
};

function measureNative(report) {
  for (const [part, [name, share]] of Object.entries(NATIVE)) {
    if (report[part] !== null) continue;
    try {
      console.error(`${name}, ${secondsLeft().toFixed(0)} s left in all`);
      const cuda = report.gpu.emulated ? undefined : 'ON';
      const path = buildNativeBench(name, { cuda, seconds: secondsLeft() });
      if (values.prepare) continue;
      // Several times what any cache holds. Emulated kernels take a millionth of the speed.
      const size = name === 'cuda_gemm_bench' ? 256 : 1024;
      const real = ['--rounds', 12, '--megabytes', size];
      const args = report.gpu.emulated ? ['--rounds', 1, '--megabytes', 8, '--only', 'int8'] : real;
      const seconds = Math.max(1, Math.min(secondsLeft(), share * minutes * 60));
      report[part] = runNativeBench(path, [...args, ...(part === 'limits' ? [] : ['--json'])], {
        seconds,
      }).at(-1);
    } catch (error) {
      // Without it the measurements are still worth their time.
      report.skipped.push({ what: name, why: error.message.trim() });
      console.error(`LEFT OUT: ${name}: ${error.message}`);
    }
    save(report);
  }
}

function benchMeasurements() {
  const args = [LABORATORY, '--device', 'cuda', '--keep'];
  args.push('--minutes', String(secondsLeft() / 60), '--out', values.out, '--work', values.work);
  for (const flag of ['data', 'sentences']) if (values[flag]) args.push(`--${flag}`, values[flag]);
  for (const pattern of values.only) args.push('--only', pattern);
  if (values.prepare) args.push('--prepare');
  const child = spawn(process.execPath, args, { stdio: ['inherit', 'ignore', 'inherit'] });
  // The child finishes what it has; a second signal ends it.
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child.kill(signal));
  return new Promise((ended) => child.on('close', (code) => ended(code ?? 1)));
}

const gpu = await gpuOrEnd();
if (gpu.emulated) console.error('The GPU is EMULATED on the CPU: every figure below means nothing.');
const { command, commit, machine, node } = scriptProvenance();
const about = { format: 'sida-cuda-bench', version: 1, command, commit, machine, node, gpu };
const earlier = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : undefined;
const same = earlier && gpuIdentity(earlier.gpu) === gpuIdentity(gpu) && earlier.commit === commit;
const kept = same && { limits: earlier.limits, gemm: earlier.gemm, rows: earlier.rows };
const report = { ...about, limits: null, gemm: null, rows: null, skipped: [], measurements: null, ...kept };
if (!values['skip-native']) measureNative(report);
process.exitCode = await benchMeasurements();
const measured = join(values.out, BENCH_FILE);
if (!values.prepare && existsSync(measured)) {
  report.measurements = JSON.parse(readFileSync(measured, 'utf8'));
  save(report);
  console.log(file);
}
