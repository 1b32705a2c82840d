// Fuzzes the code that reads files from outside: the C++ readers with libFuzzer, under ASan and UBSan, and those in
// TypeScript with fast-check. An input that fails is added to the reader's archive, which the native tests replay.
import { spawn, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { leaveBeside } from './fault-words.mjs';
import { ARCHIVES, add, archiveOf, keptFolder, pack, unpack } from './fuzz-corpus.mjs';
import { READERS, writeSeeds } from './fuzz-seeds.mjs';

const BUILD = 'build/fuzz';
const FOUND = `${BUILD}/corpus`;
const MOST_BYTES = 16_384;
/** What libFuzzer calls an input that failed. */
const FAILURE = /^(crash|timeout|oom|leak)-/;
/** Only the plain kernels are instrumented. */
const ENV = { ...process.env, SIDA_ISA: 'scalar' };
const HELP = `npm run test:fuzz -- [options]

  --minutes N     time for all C++ readers together (5)
  --reader NAME   fuzz this reader only; repeatable (${READERS.join(', ')})
  --keep          afterwards reduce each archive to the fewest inputs that reach the same code
  --add FILE      add a file to the archive of --reader and stop; repeatable
  --help

Needs clang with libFuzzer: apt-get install clang-14 libclang-rt-14-dev. CXX names another clang.
The inputs of a reader are kept in ${ARCHIVES}/READER.tar, unpacked into ${keptFolder('READER')}.
An input that crashes, hangs or makes a sanitizer report is added there as crash-…; the native tests replay it.
Run one input again: SIDA_ISA=scalar ${BUILD}/fuzz_READER ${keptFolder('READER')}/NAME`;

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '5' },
    reader: { type: 'string', multiple: true },
    keep: { type: 'boolean', default: false },
    add: { type: 'string', multiple: true },
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
  // Readers need no GPU, and nvcc would take most of the build.
  const device = '-DSIDA_CUDA=OFF';
  const options = [
    '-DSIDA_FUZZ=ON',
    device,
    `-DCMAKE_CXX_COMPILER=${clang}`,
    '-DCMAKE_BUILD_TYPE=RelWithDebInfo',
  ];
  for (const args of [
    ['-S', 'native', '-B', BUILD, ...options],
    ['--build', BUILD, '--parallel', String(availableParallelism())],
  ]) {
    const { status } = spawnSync('cmake', args, { stdio: ['ignore', 'ignore', 'inherit'] });
    if (status !== 0) throw new Error('The fuzzers did not build.');
  }
}

/** Inputs in a reader's folder that failed, now or in the past. */
const failures = (reader) => readdirSync(keptFolder(reader)).filter((name) => FAILURE.test(name));

/** Runs one fuzzer. A new failure goes into the reader's archive. */
function fuzz(reader, seconds) {
  const kept = unpack(reader);
  const known = failures(reader).length;
  const args = [
    `${FOUND}/${reader}`,
    kept,
    `-artifact_prefix=${kept}/`,
    `-max_total_time=${Math.ceil(seconds)}`,
    ...['-timeout=20', '-report_slow_units=20', '-rss_limit_mb=2048', '-malloc_limit_mb=512'],
    ...[`-max_len=${MOST_BYTES}`, '-use_value_profile=1', '-print_final_stats=1', '-verbosity=0'],
  ];
  return new Promise((resolve) => {
    const child = spawn(`${BUILD}/fuzz_${reader}`, args, { stdio: ['ignore', 'ignore', 'pipe'], env: ENV });
    let output = '';
    child.stderr.on('data', (chunk) => {
      output = (output + chunk).slice(-100_000);
    });
    child.on('close', (status) => {
      const runs = Number(/stat::number_of_executed_units:\s*(\d+)/.exec(output)?.[1] ?? 0);
      const inputs = readdirSync(`${FOUND}/${reader}`).length;
      const result = status === 0 ? 'no failure' : `FAILED:\n${output}`;
      const work = `${runs.toLocaleString('en')} runs, ${inputs} inputs that reach different code`;
      console.log(`${reader}: ${work}, ${result}`);
      if (failures(reader).length > known) {
        pack(reader);
        console.log(`The failing input is in ${archiveOf(reader)} and in ${kept}.`);
      }
      resolve({ failed: status !== 0, runs, inputs });
    });
  });
}

/** Reduces an archive to the fewest inputs that reach the same code as its own and the found ones; failures stay. */
function keep(reader) {
  const all = `${BUILD}/all/${reader}`;
  const few = `${BUILD}/few/${reader}`;
  for (const folder of [all, few]) {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
  }
  const kept = keptFolder(reader);
  for (const folder of [`${FOUND}/${reader}`, kept]) cpSync(folder, all, { recursive: true });
  // Counts of visits are left out: the archive is replayed in every test run, so it should be small.
  const args = ['-set_cover_merge=1', '-use_counters=0', `-max_len=${MOST_BYTES}`, few, all];
  const { status } = spawnSync(`${BUILD}/fuzz_${reader}`, args, { stdio: 'ignore', env: ENV });
  if (status !== 0 || readdirSync(few).length === 0)
    throw new Error(`The corpus of ${reader} could not be reduced.`);
  for (const name of readdirSync(kept)) {
    if (!FAILURE.test(name)) rmSync(`${kept}/${name}`);
  }
  cpSync(few, kept, { recursive: true });
  console.log(`${archiveOf(reader)}: ${pack(reader)} inputs`);
}

async function native(count) {
  const clang = compiler();
  if (clang === undefined) {
    const tried = 'CXX, clang++ and clang++-13 to -24';
    console.error(
      `\n*** SKIPPED: no clang that can link libFuzzer (tried ${tried}).\n` +
        '*** On Debian: apt-get install clang-14 libclang-rt-14-dev\n',
    );
    count.skipped += 1;
    return;
  }
  build(clang);
  writeSeeds(FOUND);
  const readers = values.reader ?? READERS;
  const lanes = Math.min(availableParallelism(), readers.length);
  const seconds = (Number(values.minutes) * 60 * lanes) / readers.length;
  const waiting = [...readers];
  const lane = async () => {
    for (let reader = waiting.shift(); reader !== undefined; reader = waiting.shift()) {
      const { failed, runs, inputs } = await fuzz(reader, seconds);
      count[failed || runs === 0 ? 'failed' : 'passed'] += 1;
      count.runs += runs;
      count.inputs += inputs;
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
} else if (values.reader?.some((name) => !READERS.includes(name))) {
  const unknown = values.reader.find((name) => !READERS.includes(name));
  console.error(`--reader: expected one of ${READERS.join(', ')}, found ${unknown}`);
  process.exitCode = 2;
} else if (values.add !== undefined) {
  if (values.reader?.length === 1) {
    console.log(`${archiveOf(values.reader[0])}: ${add(values.reader[0], values.add)} inputs`);
  } else {
    console.error('--add: expected one --reader, whose archive the files are added to');
    process.exitCode = 2;
  }
} else {
  const started = performance.now();
  const count = { passed: 0, failed: 0, skipped: 0, runs: 0, inputs: 0 };
  if (values.reader === undefined) {
    const runs = String(Math.ceil(Number(values.minutes) * 2_000));
    const { status } = spawnSync('npx', ['vitest', 'run', 'test/unit/damaged-files.test.ts'], {
      stdio: 'inherit',
      env: { ...process.env, SIDA_FUZZ_RUNS: runs },
    });
    count[status === 0 ? 'passed' : 'failed'] += 1;
  }
  await native(count);
  if (values.reader === undefined && count.skipped === 0) {
    leaveBeside({
      file: 'fuzzers',
      fault: 'fuzzers of the readers of files',
      figures: [
        `${READERS.length} native readers and those in TypeScript: ${count.failed} with a report`,
        `${count.runs.toLocaleString('en')} native runs, ${count.inputs} inputs that reach different code`,
      ],
      passed: count.failed === 0,
      seconds: (performance.now() - started) / 1000,
    });
  }
  console.log(`\n${count.passed} passed, ${count.failed} failed, ${count.skipped} skipped`);
  process.exitCode = count.failed === 0 ? 0 : 1;
}
