// The benches of native/bench/, built where they are not, each a program that prints lines of JSON.
import { execFileSync } from 'node:child_process';
import { availableParallelism } from 'node:os';

const BUILD = 'build/native';

/**
 * Builds one bench and returns its path; a build that is up to date costs a second. `cuda`: ON or EMULATED, in a
 * directory of its own; `seconds`: the most that it may take.
 */
export function buildNativeBench(name, { cuda, seconds } = {}) {
  const build = cuda === undefined ? BUILD : `${BUILD}-cuda-${cuda.toLowerCase()}`;
  const begun = performance.now();
  const run = (...args) => {
    const left = seconds && Math.max(1, Math.ceil(seconds * 1000 - (performance.now() - begun)));
    execFileSync('cmake', args, { stdio: ['ignore', 'ignore', 'inherit'], timeout: left });
  };
  const own = cuda === undefined ? [] : [`-DSIDA_CUDA=${cuda}`];
  run('-S', 'native', '-B', build, '-DSIDA_BENCHES=ON', '-DCMAKE_BUILD_TYPE=Release', ...own);
  run('--build', build, '--target', name, '--parallel', String(availableParallelism()));
  return `${build}/${name}`;
}

/** What it printed, a value a line. */
export function runNativeBench(path, ...args) {
  return runNativeBenchWithin(undefined, path, ...args);
}

/** Throws when it takes more than `seconds`. */
export function runNativeBenchWithin(seconds, path, ...args) {
  const text = execFileSync(path, args.map(String), {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
    maxBuffer: 1 << 26,
    timeout: seconds && Math.ceil(seconds * 1000),
  });
  return text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
}
