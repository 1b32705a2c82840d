// The cuda device's tests on a GPU: native tests, the same under compute-sanitizer, and a server with --device cuda.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { leaveBeside } from './fault-words.mjs';

const HELP = `npm run test:cuda -- [options]

  --only WHAT      native, sanitizer or server; repeatable (all three)
  --tools LIST     of compute-sanitizer (memcheck,racecheck,synccheck)
  --cases FILTER   test cases under the sanitizer ('*cuda*', which no long comparison with the oracle is part of)
  --build DIR      build/native-tests-cuda

Builds the native tests with SIDA_CUDA=ON and runs them on the GPU; runs those of FILTER again under each tool of
compute-sanitizer, where it is installed; starts the tests of test/ that serve with --device cuda. Ends with 2 where
there is no GPU, with 1 where a test fails or the sanitizer finds anything.

Examples:
  npm run test:cuda
  npm run test:cuda -- --only native
  npm run test:cuda -- --only sanitizer --tools racecheck --cases '*cuda*attention*'`;

const { values } = parseArgs({
  options: {
    help: { type: 'boolean', default: false },
    only: { type: 'string', multiple: true, default: ['native', 'sanitizer', 'server'] },
    tools: { type: 'string', default: 'memcheck,racecheck,synccheck' },
    cases: { type: 'string', default: '*cuda*' },
    build: { type: 'string', default: 'build/native-tests-cuda' },
  },
});
if (values.help) {
  console.log(HELP);
  process.exit(0);
}

/** What compute-sanitizer ends with when it finds something. */
const FOUND = 3;

const failures = [];
const left = [];

function run(command, args, options = {}) {
  console.log(`\n$ ${command} ${args.join(' ')}`);
  return spawnSync(command, args, { stdio: 'inherit', ...options }).status;
}

function end(code, message) {
  console.error(`\n${message}\n`);
  process.exit(code);
}

function installed(command) {
  return spawnSync(command, ['--version'], { stdio: 'ignore' }).status === 0;
}

/** What a driver leaves, on Linux and in WSL; containers may lack nvidia-smi. */
const DRIVER_FILES = ['/dev/nvidiactl', '/dev/dxg'];

/** Before anything is built. The native tests look again, through the runtime. */
function requireGpu() {
  const found = spawnSync('nvidia-smi', ['--list-gpus'], { encoding: 'utf8' });
  if (found.status === 0 && found.stdout.trim() !== '') return console.log(found.stdout.trim());
  if (DRIVER_FILES.some((file) => existsSync(file))) return;
  const why = found.error?.message ?? (found.stdout + found.stderr).trim();
  end(2, `NOTHING WAS TESTED: there is no GPU: nvidia-smi --list-gpus: ${why}`);
}

function build() {
  const configure = ['-S', 'native', '-B', values.build, '-DSIDA_CUDA=ON'];
  const compile = [
    '--build',
    values.build,
    '--target',
    'sida_tests',
    '--parallel',
    String(availableParallelism()),
  ];
  if (run('cmake', configure) === 0 && run('cmake', compile) === 0) return;
  end(1, 'The native tests did not build.');
}

const tests = `${values.build}/sida_tests`;

/** Shown as it comes: a run that is ended early has told what it knows. */
async function nativeTests() {
  console.log(`\n$ ${tests}`);
  const child = spawn(tests, [], { stdio: ['ignore', 'pipe', 'inherit'] });
  let said = '';
  child.stdout.setEncoding('utf8').on('data', (text) => {
    said += text;
    process.stdout.write(text);
  });
  const [status, signal] = await once(child, 'close');
  // A runtime without a device lets the same tests pass on the cpu alone.
  if (said.includes('tests of engines run on the cpu alone')) {
    end(
      2,
      'NOTHING WAS TESTED on the GPU: the native tests found none that they can use; the message is above.',
    );
  }
  if (status !== 0) failures.push(`native tests: ${signal ?? `status ${status}`}`);
  const skipped = said.match(/SKIPPED: .*/g) ?? [];
  if (skipped.length > 0) left.push(`native tests that lack their data (${skipped.length}, SKIPPED above)`);
}

/** What each tool of compute-sanitizer reported. */
const reports = [];

function sanitizer() {
  const started = performance.now();
  if (!installed('compute-sanitizer')) {
    const why = 'compute-sanitizer is not on PATH (it comes with the CUDA toolkit)';
    console.error(`\nLEFT OUT: memcheck, racecheck and synccheck: ${why}\n`);
    left.push('sanitizer');
    return;
  }
  for (const tool of values.tools.split(',')) {
    const own = tool === 'memcheck' ? ['--leak-check', 'full'] : [];
    const args = [
      '--tool',
      tool,
      ...own,
      '--error-exitcode',
      String(FOUND),
      tests,
      `--test-case=${values.cases}`,
    ];
    const status = run('compute-sanitizer', args);
    reports.push(`${tool}: ${status === 0 ? 'no report' : `status ${status}`}`);
    if (status === FOUND) failures.push(`compute-sanitizer ${tool} found errors`);
    else if (status !== 0)
      failures.push(`compute-sanitizer ${tool}: a test failed or it cannot run here (status ${status})`);
  }
  leaveBeside({
    file: 'gpu',
    fault: `compute-sanitizer over the tests ${values.cases}`,
    figures: reports,
    passed: reports.every((report) => report.endsWith('no report')),
    seconds: (performance.now() - started) / 1000,
  });
}

function server() {
  const file = 'test/integration/server/serve-cuda.test.ts';
  if (!existsSync(file)) {
    console.error(`\nLEFT OUT: ${file} is not there\n`);
    left.push('server');
    return;
  }
  if (run('npm', ['run', '--silent', 'build:ts']) !== 0) return failures.push('build:ts');
  const env = { ...process.env, SIDA_REQUIRE_CUDA: '1' };
  if (run('npx', ['vitest', 'run', file], { env }) !== 0) failures.push(file);
}

requireGpu();
if (values.only.some((what) => what !== 'server')) build();
if (values.only.includes('native')) await nativeTests();
if (values.only.includes('sanitizer')) sanitizer();
if (values.only.includes('server')) server();
console.log(
  `\n${failures.length === 0 ? 'passed' : `FAILED: ${failures.join('; ')}`}${left.length > 0 ? `; left out: ${left.join(', ')}` : ''}`,
);
process.exitCode = failures.length === 0 ? 0 : 1;
