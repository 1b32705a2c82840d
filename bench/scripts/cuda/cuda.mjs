// Everything that is measured on a GPU, in one command that fits ten lent minutes, the most valuable first.
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { BENCH_FILE } from '../../dist/report/bench-file.js';
import { CUDA_TABLES } from '../../dist/report/cuda-tables.js';
import { markdownTable } from '../../dist/report/markdown.js';
import { gpuIdentity, readGpu } from '../../dist/runs/gpu.js';
import { buildNativeBench, runNativeBench } from '../../dist/support/native-bench.js';
import { LABORATORY } from '../../dist/support/paths.js';
import { scriptProvenance } from '../../dist/support/provenance.js';
import { visibleGpu } from '../../dist/systems/gpu-memory.js';

const HELP = `npm run bench:cuda -- [options]

  --minutes 10     hard limit, builds and packing included: what would not end by then is not begun
  --prepare        build the native benches, write packs and train predictors, measure nothing; no limit but --minutes
  --only PATTERN   measurements of \`sida bench --device cuda --list\`; repeatable
  --sentences N    inputs of a measurement, in place of 192 / 128 / 64 for SST-2 / MRPC / MultiRC
  --data DIR       holds sst2/, mrpc/, multirc/; SST-2's validation set is bundled, the others are left out without
  --work DIR       packs, traces and predictors, up to 52 GB (build/bench-cuda)
  --out DIR        results (bench/results/cuda)
  --json FILE      a copy of the result
  --skip-native    neither machine limits nor kernel shares
  --fresh          measure again what an earlier run on this GPU has

In this order: (1) GPU, driver, copies, tensor cores; (2) kernels as shares of these; (3) the trained model, then
Switch-base with 8, 128, 256 and 64 experts in bf16 at 100 % and 20 %, batch 1 and 16, SST-2, and after each size Hugging
Face transformers on the same GPU, resident and with accelerate's offload; (4) other budgets, MRPC and MultiRC. A run
that ended goes on where it stopped when it is started again. Ends with 2 where there is no GPU, with 1 where exact
answers differ or a measurement failed.

Needs Node, cmake, nvcc and a driver; for the peers Python with torch (CUDA), transformers and accelerate, named by
SIDA_PEERS_PYTHON where python3 is not it.

Examples:
  npm run bench:cuda
  npm run bench:cuda -- --prepare --minutes 60
  npm run bench:cuda -- --data data --json /tmp/h100.json
  npm run bench:cuda -- --minutes 3 --only 'switch-base-128-bf16/sst2'`;

const { values } = parseArgs({
  options: {
    help: { type: 'boolean', default: false },
    minutes: { type: 'string' },
    prepare: { type: 'boolean', default: false },
    only: { type: 'string', multiple: true, default: [] },
    sentences: { type: 'string' },
    data: { type: 'string' },
    work: { type: 'string', default: 'build/bench-cuda' },
    out: { type: 'string', default: 'bench/results/cuda' },
    json: { type: 'string' },
    'skip-native': { type: 'boolean', default: false },
    fresh: { type: 'boolean', default: false },
  },
});
if (values.help) {
  console.log(HELP);
  process.exit(0);
}
const begun = performance.now();
const minutes = Number(values.minutes ?? (values.prepare ? 120 : 10));
if (!(minutes > 0)) {
  console.error(`--minutes ${values.minutes}: expected a number above 0, such as 10`);
  process.exit(2);
}
/** Tables are written after the last measurement. */
const AFTERWARDS = values.prepare ? 0 : 5;
const secondsLeft = () => Math.max(0, minutes * 60 - AFTERWARDS - (performance.now() - begun) / 1000);
const file = join(values.out, 'cuda.json');

async function gpuOrEnd() {
  try {
    return await readGpu();
  } catch (error) {
    console.error(`\nNOTHING WAS MEASURED: ${error.message}\n`);
    return process.exit(2);
  }
}

/** What nvidia-smi tells beside its name; empty without it. */
function details() {
  const fields = {
    'PCIe, generation and width': ['pcie.link.gen.max', 'pcie.link.width.max'],
    'power limit': ['power.limit'],
    'highest clocks, SM and memory': ['clocks.max.sm', 'clocks.max.memory'],
    'persistence, compute mode': ['persistence_mode', 'compute_mode'],
  };
  const names = Object.values(fields).flat();
  try {
    const args = [`--query-gpu=${names.join()}`, '--format=csv,noheader', `--id=${visibleGpu()}`];
    const text = execFileSync('nvidia-smi', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
    const found = text.split(',').map((value) => value.trim());
    return Object.fromEntries(
      Object.entries(fields).map(([title, own]) => [title, own.map(() => found.shift()).join(' · ')]),
    );
  } catch {
    return {};
  }
}

function earlierReport(about) {
  if (values.fresh || !existsSync(file)) return undefined;
  try {
    const found = JSON.parse(readFileSync(file, 'utf8'));
    const same = gpuIdentity(found.gpu) === gpuIdentity(about.gpu) && found.commit === about.commit;
    return found.version === 1 && same ? found : undefined;
  } catch {
    return undefined;
  }
}

/** The old file or the new one, never half of it. */
function save(report) {
  mkdirSync(values.out, { recursive: true });
  for (const target of [file, ...(values.json === undefined ? [] : [values.json])]) {
    writeFileSync(`${target}.tmp`, `${JSON.stringify(report)}\n`);
    renameSync(`${target}.tmp`, target);
  }
}

/** Emulated kernels take a millionth of the speed. */
function sizeOf(name, { emulated }) {
  // Several times what any cache holds; making random weights takes the host seconds.
  const megabytes = name === 'cuda_gemm_bench' ? 256 : 1024;
  if (!emulated) return ['--rounds', '12', '--megabytes', String(megabytes)];
  return ['--rounds', '1', '--megabytes', '8', '--only', 'int8'];
}

/** With the most of the time that each may run: the measurements are worth more than the last kernel. */
const NATIVE = [
  ['limits', 'cuda_limits_bench', 'copies', 0.05],
  ['gemm', 'cuda_gemm_bench', 'products with experts', 0.15],
  ['rows', 'cuda_rows_bench', 'the other kernels', 0.1],
];

/** Each once; those that an earlier run has stay. */
function measureNative(report) {
  for (const [key, name, title, share] of NATIVE) {
    if (report[key] !== null) continue;
    const left = secondsLeft();
    try {
      if (left === 0) throw new Error('the time is over');
      console.error(`${title}: ${name}, ${left.toFixed(0)} s left in all`);
      const path = buildNativeBench(name, { ...(report.gpu.emulated ? {} : { cuda: 'ON' }), seconds: left });
      if (values.prepare) continue;
      const args = [...sizeOf(name, report.gpu), ...(key === 'limits' ? [] : ['--json'])];
      report[key] = runNativeBench(path, args, {
        seconds: Math.max(1, Math.min(secondsLeft(), share * minutes * 60)),
      }).at(-1);
    } catch (error) {
      // Without it the measurements are still worth their time.
      report.skipped.push({ what: name, why: error.message.trim() });
      console.error(`\nLEFT OUT: ${name}: ${error.message}\n`);
    }
    save(report);
  }
}

function benchMeasurements(report) {
  const args = [LABORATORY, '--device', 'cuda', '--keep'];
  args.push('--minutes', String(secondsLeft() / 60), '--out', values.out, '--work', values.work);
  for (const flag of ['data', 'sentences']) if (values[flag]) args.push(`--${flag}`, values[flag]);
  for (const pattern of values.only) args.push('--only', pattern);
  for (const flag of ['fresh', 'prepare']) if (values[flag]) args.push(`--${flag}`);
  const measurements = join(values.out, BENCH_FILE);
  const started = Date.now();
  let copied = 0;
  return new Promise((ended) => {
    const child = spawn(process.execPath, args, { stdio: ['inherit', 'ignore', 'inherit'] });
    // The child finishes what it has; a second signal ends it.
    for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child.kill(signal));
    const copy = () => {
      try {
        if (statSync(measurements).mtimeMs < Math.max(started, copied)) return;
        copied = Date.now();
        report.measurements = JSON.parse(readFileSync(measurements, 'utf8'));
        save(report);
      } catch {
        // Not there yet.
      }
    };
    const looking = setInterval(copy, 2000);
    child.on('close', (code) => {
      clearInterval(looking);
      copy();
      ended(code ?? 1);
    });
  });
}

const gpu = await gpuOrEnd();
if (gpu.emulated) {
  console.error('\nThe GPU is EMULATED on the CPU: every figure below is of a trial and means nothing.\n');
}
const { command, commit, machine: host, node } = scriptProvenance();
const about = {
  format: 'sida-cuda-bench',
  version: 1,
  command,
  commit,
  machine: host,
  node,
  gpu: { ...gpu, details: details() },
};
const earlier = earlierReport(about);
const kept = earlier && { limits: earlier.limits, gemm: earlier.gemm, rows: earlier.rows };
const report = { ...about, limits: null, gemm: null, rows: null, skipped: [], measurements: null, ...kept };
console.error(`${gpuIdentity(gpu)}; ${minutes} minutes; results in ${resolve(values.out)}`);
if (!values['skip-native']) measureNative(report);
let code = 1;
if (secondsLeft() > 1) code = await benchMeasurements(report);
else
  console.error(
    '\nNO SYSTEM WAS MEASURED: the time is over. The same command started again goes on with them.\n',
  );
if (!values.prepare) {
  save(report);
  for (const [name, table] of Object.entries(CUDA_TABLES)) {
    const made = table(report);
    if (made.rows.length > 0) console.log(`\n${name}\n\n${markdownTable(made)}`);
  }
  console.log(`\n${file}`);
}
console.error(`${((performance.now() - begun) / 60_000).toFixed(1)} of ${minutes} minutes`);
process.exitCode = code;
