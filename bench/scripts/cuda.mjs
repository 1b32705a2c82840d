// Everything that is measured on a GPU, in one command that fits ten minutes: limits, the SiDA paper's rows, peers,
// decoders and kernels, in the order of cuda-steps.json, which has the most of the time that a step may take.
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { BENCH_FILE } from '../dist/report/bench-file.js';
import { gpuIdentity, readGpu } from '../dist/runs/gpu.js';
import { buildNativeBench, runNativeBench } from '../dist/support/native-bench.js';
import { LABORATORY, REPOSITORY, SCRIPTS } from '../dist/support/paths.js';
import { run } from '../dist/support/processes.js';
import { scriptProvenance } from '../dist/support/provenance.js';
import { optionsOf } from '../dist/support/script.js';

const HELP = `npm run bench:cuda -- [options]
  --minutes N      hard limit, builds and packing included, default 10
  --prepare        build the native benches, write packs and train predictors, measure nothing; at most 120 minutes
  --steps LIST     of cuda-steps.json, such as systems,decode-olmoe-7b
  --only PATTERN…  measurements of \`sida bench --device cuda --list\`, of the step systems; repeatable
  --sentences N    inputs of a measurement, in place of 192 / 128 / 64 for SST-2 / MRPC / MultiRC
  --data DIR       holds sst2/, mrpc/, multirc/; SST-2's validation set is bundled, the others are left out without
  --work build/bench-cuda  packs, traces and predictors, up to 90 GB
  --out bench/results/cuda
A run that ended continues where it stopped when it is started again. Needs cmake, nvcc and a driver; for transformers
Python with torch for CUDA and accelerate (SIDA_PEERS_PYTHON), for llama.cpp SIDA_LLAMA_BENCH, its llama-bench, and
SIDA_LLAMA_GGUF, a MoE model. Ends with 2 where there is no GPU.`;

const values = optionsOf(HELP);
const begun = performance.now();
const minutes = values.minutes ?? (values.prepare ? 120 : 10);
const secondsLeft = () => Math.max(1, minutes * 60 - (performance.now() - begun) / 1000);
const file = join(values.out, 'cuda.json');
const readJson = (path) => (existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : null);
/** $WORK stands for the folder of packs, $NAME for a variable of the environment. */
const filled = (text) =>
  text.replace(/\$(\w+)/g, (name, key) => (key === 'WORK' ? values.work : (process.env[key] ?? name)));

/** Runs a step for at most `seconds`; returns null where it only prepared. */
async function resultOf({ bench, make, made, program, run: args }, { emulated }, seconds) {
  const words = filled(args).split(' ');
  if (bench !== undefined) {
    const path = buildNativeBench(bench, { cuda: emulated ? undefined : 'ON', seconds: secondsLeft() });
    return values.prepare ? null : runNativeBench(path, words, { seconds }).at(-1);
  }
  const own = { signal: AbortSignal.timeout(Math.ceil(1000 * seconds)), showErrors: true };
  const script = (text, ...more) => run(process.execPath, [...`${SCRIPTS}${filled(text)}`.split(' '), ...more], own);
  if (made !== undefined && !existsSync(filled(made))) await script(make);
  if (values.prepare) return null;
  if (program !== undefined) return JSON.parse(await run(filled(program), words, own));
  const result = join(values.work, 'step');
  writeFileSync(`${result}.json`, 'null');
  await script(args, '--save', relative(`${REPOSITORY}bench/results`, result));
  const measured = readJson(`${result}.json`);
  if (measured === null) throw new Error('a program is missing; its message is above');
  return measured;
}

function measureSystems(seconds) {
  const args = [LABORATORY, '--device', 'cuda', '--keep'];
  args.push('--minutes', String(seconds / 60), '--out', values.out, '--work', values.work);
  for (const flag of ['data', 'sentences']) if (values[flag]) args.push(`--${flag}`, values[flag]);
  for (const pattern of values.only) args.push('--only', pattern);
  if (values.prepare) args.push('--prepare');
  const child = spawn(process.execPath, args, { stdio: ['inherit', 'ignore', 'inherit'] });
  // The child finishes what it has; a second signal ends it.
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child.kill(signal));
  return new Promise((ended) => child.on('close', (code) => ended(code ?? 1)));
}

const gpu = await readGpu().catch(({ message }) => {
  console.error(`NOTHING WAS MEASURED: ${message}`);
  process.exit(2);
});
if (gpu.emulated) console.error('The GPU is EMULATED on the CPU: every figure below means nothing.');
for (const folder of [values.work, values.out]) mkdirSync(folder, { recursive: true });
const { command, commit, machine, node } = scriptProvenance();
const earlier = readJson(file);
const kept = earlier && gpuIdentity(earlier.gpu) === gpuIdentity(gpu) && earlier.commit === commit ? earlier : {};
const report = { ...kept, format: 'sida-cuda-bench', version: 1, command, commit, machine, node, gpu, skipped: [] };
const all = readJson(new URL('cuda-steps.json', import.meta.url))[gpu.emulated ? 'emulated' : 'gpu'];
const wanted = ({ name }) => values.steps === undefined || values.steps.split(',').includes(name);
const left = all.filter((step) => wanted(step) && !report[step.name]);
for (const [i, step] of left.entries()) {
  // The systems have all the time that the steps after them may not take.
  const share = step.name === 'systems' ? 1 - left.slice(i + 1).reduce((sum, each) => sum + each.share, 0) : step.share;
  const seconds = values.prepare ? secondsLeft() : Math.min(secondsLeft(), share * minutes * 60);
  console.error(`${step.name}: ${seconds.toFixed(0)} s at most, ${secondsLeft().toFixed(0)} s left in all`);
  try {
    if (step.name === 'systems') process.exitCode = await measureSystems(seconds);
    else report[step.name] = await resultOf(step, gpu, seconds);
  } catch ({ message }) {
    // The other measurements are still worth their time.
    report.skipped.push({ what: step.name, why: message.trim() });
    console.error(`LEFT OUT: ${step.name}: ${message}`);
  }
  report.measurements = readJson(join(values.out, BENCH_FILE));
  if (values.prepare) continue;
  writeFileSync(`${file}.tmp`, `${JSON.stringify(report)}\n`);
  renameSync(`${file}.tmp`, file);
}
console.log(file);
