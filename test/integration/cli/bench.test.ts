// `sida bench` in a checkout, and in a package, which has no laboratory.
import { execFile } from 'node:child_process';
import { copyFileSync, cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';

const REPO = join(import.meta.dirname, '..', '..', '..');
const folder = mkdtempSync(join(tmpdir(), 'sida-package-'));
afterAll(() => rmSync(folder, { recursive: true }));

function bench(root: string, ...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    const command = [join(root, 'dist', 'cli', 'main.js'), 'bench', ...args];
    execFile(process.execPath, command, { timeout: 60_000 }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}

it('runs the laboratory of a checkout, with its arguments and its exit code', async () => {
  const { code, stdout } = await bench(REPO, '--list');
  expect([code, stdout]).toEqual([0, expect.stringContaining('switch-words/words/25%/disk/lru\n')]);
  expect(await bench(REPO, '--only', 'no-such-system')).toMatchObject({ code: 2, stdout: '' });
});

it('says in one line how to get the laboratory when the package has none', async () => {
  cpSync(join(REPO, 'dist'), join(folder, 'dist'), { recursive: true });
  copyFileSync(join(REPO, 'package.json'), join(folder, 'package.json'));
  symlinkSync(join(REPO, 'node_modules'), join(folder, 'node_modules'));
  const packaged = await bench(folder, '--quick');
  expect(packaged).toMatchObject({ code: 1, stdout: '' });
  expect(packaged.stderr).toMatch(/^sida: The laboratory is not part of the package: .*npm run bench.*\n$/);
  mkdirSync(join(folder, 'bench', 'src'), { recursive: true });
  expect((await bench(folder, '--quick')).stderr).toMatch(
    /^sida: `sida bench` needs a build of bench\/: run `npm run build:bench`\n$/,
  );
});
