// The benches of native/bench/, built where they are not, each a program that prints lines of JSON.
import { execFileSync } from 'node:child_process';
import { availableParallelism } from 'node:os';

const BUILD = 'build/native';

/** Builds one bench and returns its path; a build that is up to date costs a second. */
export function buildNativeBench(name) {
  const run = (...args) => execFileSync('cmake', args, { stdio: ['ignore', 'ignore', 'inherit'] });
  run('-S', 'native', '-B', BUILD, '-DSIDA_BENCHES=ON', '-DCMAKE_BUILD_TYPE=Release');
  run('--build', BUILD, '--target', name, '--parallel', String(availableParallelism()));
  return `${BUILD}/${name}`;
}

/** What it printed, a value a line. */
export function runNativeBench(path, ...args) {
  const text = execFileSync(path, args.map(String), {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
    maxBuffer: 1 << 26,
  });
  return text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
}
