// Fuzzes what reads files from outside: the C++ readers with libFuzzer, under ASan and UBSan, and those in TypeScript
// with
// fast-check. A failure leaves its input in native/fuzz/corpus, which the native tests replay.
import { spawn, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { writeSeeds } from './fuzz-seeds.mjs';

const BUILD = 'build/fuzz';
const FOUND = `${BUILD}/corpus`;
const MOST_BYTES = 16_384;
const KEPT = 'native/fuzz/corpus';
/** The plain kernels are the ones that are instrumented. */
const ENV = { ...process.env, SIDA_ISA: 'scalar' };
const HELP = `npm run test:fuzz -- [options]

  --minutes N     how long, all C++ readers together (5)
  --reader NAME   only this one; may be given several times
  --keep          afterwards keep in ${KEPT} as few of all inputs as reach the same code
  --help

Needs clang with libFuzzer: apt-get install clang-14 libclang-rt-14-dev. CXX names another clang.
A crash, hang or sanitizer's report leaves ${KEPT}/READER/crash-…; the native tests replay it.
Run one input again: SIDA_ISA=scalar ${BUILD}/fuzz_READER FILE`;

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '5' },
    reader: { type: 'string', multiple: true },
    keep: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});

/** A clang++ that can link a fuzzer. */
function compiler() {
  const versions = Array.from({ length: 12 }, (_, i) => `clang++-${24 - i}`);
  const names = [process.env.CXX, 'clang++', ...versions].filter((name) => name?.includes('clang'));
  const program = 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }';
  const flags = ['-fsanitize=fuzzer,address,undefined', '-x', 'c++', '-', '-o', '/dev/null'];
  return names.find((name) => spawnSync(name, flags, { input: program }).status === 0);
}

function build(clang) {
  const options = ['-DSIDA_FUZZ=ON', `-DCMAKE_CXX_COMPILER=${clang}`, '-DCMAKE_BUILD_TYPE=RelWithDebInfo'];
  for (const args of [
    ['-S', 'native', '-B', BUILD, ...options],
    ['--build', BUILD, '--parallel', String(availableParallelism())],
  ]) {
    const { status } = spawnSync('cmake', args, { stdio: ['ignore', 'ignore', 'inherit'] });
    if (status !== 0) throw new Error('The fuzzers did not build.');
  }
}

const kept = (reader) => {
  mkdirSync(`${KEPT}/${reader}`, { recursive: true });
  return `${KEPT}/${reader}`;
};

/** Runs one fuzzer; what it found wrong. */
function fuzz(reader, seconds) {
  const args = [
    `${FOUND}/${reader}`,
    kept(reader),
    `-artifact_prefix=${kept(reader)}/`,
    `-max_total_time=${Math.ceil(seconds)}`,
    ...['-timeout=20', '-report_slow_units=20', '-rss_limit_mb=2048', '-malloc_limit_mb=512'],
    ...[`-max_len=${MOST_BYTES}`, '-use_value_profile=1', '-print_final_stats=1', '-verbosity=0'],
  ];
  return new Promise((resolve) => {
    const child = spawn(`${BUILD}/fuzz_${reader}`, args, { stdio: ['ignore', 'ignore', 'pipe'], env: ENV });
    let output = '';
    child.stderr.on('data', (piece) => {
      output = (output + piece).slice(-100_000);
    });
    child.on('close', (status) => {
      const runs = Number(/stat::number_of_executed_units:\s*(\d+)/.exec(output)?.[1] ?? 0);
      const inputs = readdirSync(`${FOUND}/${reader}`).length;
      console.log(
        `${reader}: ${runs.toLocaleString('en')} runs, ${inputs} inputs that reach other code, ${status === 0 ? 'nothing wrong' : `FAILED:\n${output}`}`,
      );
      resolve({ failed: status !== 0, runs });
    });
  });
}

/** Replaces the kept inputs by as few as reach all code that they and the found ones do; crashes stay. */
function keep(reader) {
  const all = `${BUILD}/all/${reader}`;
  const few = `${BUILD}/few/${reader}`;
  for (const folder of [all, few]) {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
  }
  for (const folder of [`${FOUND}/${reader}`, kept(reader)]) cpSync(folder, all, { recursive: true });
  // Which code, not how often: the kept ones are replayed in every test run.
  const args = ['-set_cover_merge=1', '-use_counters=0', `-max_len=${MOST_BYTES}`, few, all];
  const { status } = spawnSync(`${BUILD}/fuzz_${reader}`, args, { stdio: 'ignore', env: ENV });
  if (status !== 0 || readdirSync(few).length === 0)
    throw new Error(`The corpus of ${reader} could not be cut down.`);
  for (const name of readdirSync(kept(reader))) {
    if (!/^(crash|timeout|oom|leak)-/.test(name)) rmSync(`${kept(reader)}/${name}`);
  }
  cpSync(few, kept(reader), { recursive: true });
}

async function native(count) {
  const clang = compiler();
  if (clang === undefined) {
    const tried = 'CXX, clang++ and clang++-13 to -24';
    console.error(
      `\n*** SKIPPED: no clang that can link libFuzzer (tried ${tried}).\n*** On Debian: apt-get install clang-14 libclang-rt-14-dev\n`,
    );
    count.skipped += 1;
    return;
  }
  build(clang);
  const all = writeSeeds(FOUND);
  const unknown = values.reader?.find((name) => !all.includes(name));
  if (unknown !== undefined) throw new Error(`No reader ${unknown}; there are ${all.join(', ')}.`);
  const readers = values.reader ?? all;
  const lanes = Math.min(availableParallelism(), readers.length);
  const seconds = (Number(values.minutes) * 60 * lanes) / readers.length;
  const waiting = [...readers];
  const lane = async () => {
    for (let reader = waiting.shift(); reader !== undefined; reader = waiting.shift()) {
      const { failed, runs } = await fuzz(reader, seconds);
      count[failed || runs === 0 ? 'failed' : 'passed'] += 1;
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  if (values.keep) readers.forEach(keep);
}

if (values.help) {
  console.log(HELP);
} else if (!(Number(values.minutes) > 0)) {
  console.error(`--minutes: expected a positive number, found ${values.minutes}`);
  process.exitCode = 2;
} else {
  const count = { passed: 0, failed: 0, skipped: 0 };
  if (values.reader === undefined) {
    const runs = String(Math.ceil(Number(values.minutes) * 2_000));
    const { status } = spawnSync('npx', ['vitest', 'run', 'test/unit/damaged-files.test.ts'], {
      stdio: 'inherit',
      env: { ...process.env, SIDA_FUZZ_RUNS: runs },
    });
    count[status === 0 ? 'passed' : 'failed'] += 1;
  }
  await native(count);
  console.log(`\n${count.passed} passed, ${count.failed} failed, ${count.skipped} skipped`);
  process.exitCode = count.failed === 0 ? 0 : 1;
}
