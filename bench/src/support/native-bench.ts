/** The benches of native/bench/, built where they are not: programs that print lines of JSON. */
import { execFileSync } from 'node:child_process';
import { availableParallelism } from 'node:os';

const BUILD = 'build/native';

interface BuildOptions {
  /** A build of its own with a cuda device, or one whose device is emulated. */
  cuda?: 'ON' | 'EMULATED';
  /** The most that it may take. */
  seconds?: number;
}

/** Builds one bench and returns its path; a build that is up to date costs a second. */
export function buildNativeBench(name: string, { cuda, seconds }: BuildOptions = {}): string {
  const build = cuda === undefined ? BUILD : `${BUILD}-cuda-${cuda.toLowerCase()}`;
  const begun = performance.now();
  const cmake = (...args: string[]) => {
    const left = seconds && Math.max(1, Math.ceil(seconds * 1000 - (performance.now() - begun)));
    execFileSync('cmake', args, { stdio: ['ignore', 'ignore', 'inherit'], timeout: left });
  };
  const device = cuda === undefined ? [] : [`-DSIDA_CUDA=${cuda}`];
  cmake('-S', 'native', '-B', build, '-DSIDA_BENCHES=ON', '-DCMAKE_BUILD_TYPE=Release', ...device);
  cmake('--build', build, '--target', name, '--parallel', String(availableParallelism()));
  return `${build}/${name}`;
}

/**
 * What it printed, a value a line. Throws when it takes more than `seconds`. `isa`: the set of kernels, by default the
 * widest.
 */
export function runNativeBench<Line>(
  path: string,
  args: readonly (string | number)[],
  { seconds, isa }: { seconds?: number; isa?: string } = {},
): Line[] {
  const text = execFileSync(path, args.map(String), {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
    maxBuffer: 1 << 26,
    env: { ...process.env, ...(isa !== undefined && { SIDA_ISA: isa }) },
    timeout: seconds && Math.ceil(seconds * 1000),
  });
  return text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Line);
}
