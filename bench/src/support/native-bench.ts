/** The benches of native/bench/, built where they are not: programs that print lines of JSON. */
import { execFileSync } from 'node:child_process';
import { availableParallelism } from 'node:os';

interface BuildOptions {
  /** ON: a build of its own with the cuda device. Otherwise benches of the cuda device run on its emulation. */
  cuda?: 'ON';
  /** The most that it may take. */
  seconds?: number;
}

/** Builds one bench and returns its path; a build that is up to date costs a second. */
export function buildNativeBench(name: string, { cuda, seconds }: BuildOptions = {}): string {
  // The addon's build has compiled the library that the benches link.
  const build = cuda === undefined ? 'build/addon' : 'build/native-cuda';
  const begun = performance.now();
  const cmake = (...args: string[]) => {
    const left = seconds && Math.max(1, Math.ceil(seconds * 1000 - (performance.now() - begun)));
    execFileSync('cmake', args, { stdio: ['ignore', 'ignore', 'inherit'], timeout: left });
  };
  if (cuda !== undefined) cmake('-S', 'native', '-B', build, `-DSIDA_CUDA=${cuda}`);
  cmake('--build', build, '--target', name, '--parallel', String(availableParallelism()));
  return cuda === undefined ? `${build}/native/${name}` : `${build}/${name}`;
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
