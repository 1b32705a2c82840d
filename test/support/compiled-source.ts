import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../', import.meta.url));

/** Compiles src/ to a new folder and returns its path. Vitest does not transform the files of worker threads. */
export function compiledSource(): string {
  mkdirSync(`${root}build`, { recursive: true });
  const out = mkdtempSync(`${root}build/unit-`);
  const tsc = `${root}node_modules/typescript/bin/tsc`;
  const options = [
    '-p',
    'tsconfig.build.json',
    '--outDir',
    out,
    '--incremental',
    'false',
    '--sourceMap',
    'false',
  ];
  // Lint checks the types, so skip it here.
  execFileSync(process.execPath, [tsc, ...options, '--tsBuildInfoFile', 'null', '--noCheck'], { cwd: root });
  return out;
}
