// The whole test run: native tests (CMake, doctest), then TypeScript tests (vitest). Ends with one countable line.
// With --sanitizers: the native tests alone, under ASan and UBSan, then under TSan; with --only address,undefined or
// --only thread one of the two; with --kernels those of single GPU kernels too.
// The cuda device's tests run on the GPU where the addon was built for one, else on the emulation (docs/cuda.md).
import { execFile, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { promisify } from 'node:util';
import { leaveBeside } from './fault-words.mjs';

const totals = { passed: 0, failed: 0, skipped: 0 };
const sanitizers = process.argv.includes('--sanitizers');
/** TSan follows each thread of each emulated kernel, which takes these many minutes. */
const KERNELS = 'cuda gemm*,cuda rows*,cuda routing*,cuda attention*';
/** About half of the time of the native tests, which use one core for the most part. */
const HALF = 'oracle*,*gemm*,route ahead*,beams*';
/** Of one run of the native tests, which takes minutes: what hangs must fail. */
const MOST_MINUTES = 20;
const kernels = process.argv.includes('--kernels');

function run(command, args, options = {}) {
  console.log(`\n$ ${command} ${args.join(' ')}`);
  return spawnSync(command, args, { stdio: 'inherit', ...options });
}

function fail(what) {
  console.error(`\n${what}`);
  totals.failed += 1;
}

/** `sanitize`: in a build of its own. The addon's build has compiled the library that the tests link. */
async function nativeTests(sanitize, leftOut = '') {
  const build = sanitize === undefined ? 'build/addon' : `build/native-tests-${sanitize.replace(',', '-')}`;
  const directory = sanitize === undefined ? `${build}/native` : build;
  const options = ['-S', 'native', '-B', build, `-DSIDA_SANITIZE=${sanitize}`, '-DSIDA_CUDA=OFF'];
  const compile = ['--build', build, '--target', 'sida_tests', '--parallel', String(availableParallelism())];
  const built =
    (sanitize === undefined || run('cmake', options).status === 0) && run('cmake', compile).status === 0;
  if (!built) return fail(`The native tests in ${build} did not build.`);
  const halves = [`-tc=${HALF}`, `-tce=${[HALF, leftOut].filter(Boolean).join()}`];
  const runs = await Promise.all(halves.map((half) => nativeRun(`${directory}/sida_tests`, half)));
  let ranInFirst = 0;
  for (const tests of runs) {
    process.stdout.write(tests.stdout + tests.stderr);
    const counts = /test cases:\s*(\d+)\s*\|\s*(\d+) passed\s*\|\s*(\d+) failed\s*\|\s*(\d+) skipped/.exec(
      tests.stdout,
    );
    if (counts === null) {
      fail(`The native tests ended with ${tests.signal ?? `status ${tests.code}`} and no result.`);
      continue;
    }
    const withoutData = (tests.stdout.match(/SKIPPED:/g) ?? []).length;
    totals.passed += Number(counts[2]) - withoutData;
    totals.failed += Number(counts[3]);
    // A half skips the other half, too.
    totals.skipped += withoutData + (tests === runs[1] ? Number(counts[4]) - ranInFirst : 0);
    ranInFirst = Number(counts[1]);
    if (tests.code !== 0 && Number(counts[3]) === 0) fail('A sanitizer or a crash ended the native tests.');
  }
}

async function nativeRun(program, half) {
  const options = { maxBuffer: 1 << 26, timeout: MOST_MINUTES * 60_000, killSignal: 'SIGKILL' };
  // A program that fails rejects with its output.
  return promisify(execFile)(program, [half], options).then(
    (output) => ({ ...output, code: 0 }),
    (error) => ({ stdout: '', stderr: '', ...error }),
  );
}

function typescriptTests() {
  mkdirSync('build', { recursive: true });
  const report = 'build/vitest.json';
  rmSync(report, { force: true });
  const tests = run('npx', [
    'vitest',
    'run',
    '--project=!faults',
    '--reporter=default',
    '--reporter=json',
    `--outputFile.json=${report}`,
  ]);
  let result;
  try {
    result = JSON.parse(readFileSync(report, 'utf8'));
  } catch {
    return fail(`vitest ended with status ${tests.status} and wrote no result.`);
  }
  totals.passed += result.numPassedTests;
  totals.failed += result.numFailedTests;
  totals.skipped += result.numPendingTests + result.numTodoTests;
  if (tests.status !== 0 && result.numFailedTests === 0) fail('vitest failed outside of its tests.');
}

const started = performance.now();
if (sanitizers) {
  const only = process.argv.indexOf('--only');
  for (const name of only < 0 ? ['address,undefined', 'thread'] : [process.argv[only + 1]]) {
    const followsThreads = name === 'thread' && !kernels;
    await nativeTests(name, followsThreads ? KERNELS : '');
    // A run that CI ends for lack of time must have told of its failures.
    if (totals.failed > 0) break;
  }
  leaveBeside({
    file: 'sanitizers',
    fault: 'native tests under ASan, UBSan and TSan',
    figures: [
      `${totals.passed} tests passed, ${totals.failed} failed or reported, ${totals.skipped} skipped`,
    ],
    passed: totals.failed === 0,
    seconds: (performance.now() - started) / 1000,
  });
} else {
  await nativeTests();
  typescriptTests();
}
console.log(`\n${totals.passed} passed, ${totals.failed} failed, ${totals.skipped} skipped`);
process.exitCode = totals.failed === 0 ? 0 : 1;
