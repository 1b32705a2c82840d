/** Libraries of the suite that are preloaded into processes, built from a C file beside this one. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';

/** Builds `out` from a C file. False, and said so, where there is no compiler. */
export function buildPreload(source: string, out: string): boolean {
  const path = join(import.meta.dirname, source);
  const flags = ['-shared', '-fPIC', '-O1', '-o', out, path, '-ldl'];
  const made = ['cc', 'gcc', 'clang'].some(
    (compiler) => spawnSync(compiler, flags, { stdio: 'ignore' }).status === 0,
  );
  if (!made) console.warn(`SKIPPED: faults that preload ${source} need a C compiler (cc, gcc or clang)`);
  return made;
}

/** Processes that start within `start` get these variables, and their children. */
export async function withEnvironment<T>(
  variables: { [name: string]: string },
  start: () => T | Promise<T>,
): Promise<T> {
  Object.assign(process.env, variables);
  try {
    return await start();
  } finally {
    for (const name of Object.keys(variables)) delete process.env[name];
  }
}
