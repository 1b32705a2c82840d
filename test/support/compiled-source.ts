import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../', import.meta.url));

/** Compiles src/ to a fresh folder and gives its path: worker threads do not go through vitest's transforms. */
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
  // --noCheck: types are checked by lint, not here.
  execFileSync(process.execPath, [tsc, ...options, '--tsBuildInfoFile', 'null', '--noCheck'], { cwd: root });
  return out;
}
