// The whole test run: native tests (CMake, doctest), then TypeScript tests (vitest). Ends with one countable line.
// With --sanitizers: the native tests alone, under ASan and UBSan, then under TSan; with --kernels those of single
// GPU kernels too.
// SIDA_CUDA=ON runs the cuda device's tests on a GPU; otherwise they run on the emulation (docs/cuda.md).
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { leaveBeside } from './fault-words.mjs';

const totals = { passed: 0, failed: 0, skipped: 0 };
const sanitizers = process.argv.includes('--sanitizers');
const cuda = process.env.SIDA_CUDA ?? 'EMULATED';
/** TSan follows each thread of each emulated kernel, which takes these many minutes. */
const KERNELS = 'cuda gemm*,cuda rows*,cuda routing*,cuda attention*';
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

function nativeTests(directory, options, leftOut = '') {
  const configured = run('cmake', [
    ...['-S', 'native', '-B', directory],
    ...['-DSIDA_TESTS=ON', `-DSIDA_CUDA=${cuda}`, ...options],
  ]);
  const built =
    configured.status === 0 &&
    run('cmake', ['--build', directory, '--parallel', String(availableParallelism())], {
      stdio: ['ignore', 'ignore', 'inherit'],
    }).status === 0;
  if (!built) return fail(`The native tests in ${directory} did not build.`);
  const tests = spawnSync(`${directory}/sida_tests`, [`-tce=${leftOut}`], {
    encoding: 'utf8',
    maxBuffer: 1 << 26,
    timeout: MOST_MINUTES * 60_000,
    killSignal: 'SIGKILL',
  });
  process.stdout.write(tests.stdout + tests.stderr);
  const counts = /test cases:\s*(\d+)\s*\|\s*(\d+) passed\s*\|\s*(\d+) failed\s*\|\s*(\d+) skipped/.exec(
    tests.stdout,
  );
  if (counts === null)
    return fail(`The native tests ended with ${tests.signal ?? `status ${tests.status}`} and no result.`);
  const withoutData = (tests.stdout.match(/SKIPPED:/g) ?? []).length;
  totals.passed += Number(counts[2]) - withoutData;
  totals.failed += Number(counts[3]);
  totals.skipped += Number(counts[4]) + withoutData;
  if (tests.status !== 0 && Number(counts[3]) === 0) fail('A sanitizer or a crash ended the native tests.');
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
  for (const name of ['address,undefined', 'thread']) {
    const options = ['-DCMAKE_BUILD_TYPE=RelWithDebInfo', `-DSIDA_SANITIZE=${name}`];
    const followsThreads = name === 'thread' && !kernels;
    nativeTests(`build/native-tests-${name.replace(',', '-')}`, options, followsThreads ? KERNELS : '');
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
  nativeTests('build/native-tests', ['-DCMAKE_BUILD_TYPE=Release']);
  typescriptTests();
}
console.log(`\n${totals.passed} passed, ${totals.failed} failed, ${totals.skipped} skipped`);
process.exitCode = totals.failed === 0 ? 0 : 1;
