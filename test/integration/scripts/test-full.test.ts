// What test:full says of a tree that is not its commit. The parts are commands that do nothing, in a repository of its
// own.
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { REPO } from '../../support/sida-process.js';

const PARTS = ['test:faults', 'test', 'test:sanitizers', 'test:fuzz', 'test:cuda'];

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'sida-full-'));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function write(name: string, text: string): void {
  mkdirSync(join(root, name, '..'), { recursive: true });
  writeFileSync(join(root, name), text);
}

function git(...args: string[]): void {
  const author = ['-c', 'user.name=t', '-c', 'user.email=t@localhost'];
  expect(spawnSync('git', [...author, ...args], { cwd: root }).status).toBe(0);
}

/** A repository whose tests do `work`. */
function commit(work = 'true'): void {
  const scripts = Object.fromEntries(PARTS.map((part) => [part, part === 'test' ? work : 'true']));
  write('package.json', JSON.stringify({ name: 'full', scripts }));
  write('.gitignore', 'build\n');
  write('src/source.ts', 'before');
  write('test/faults/results.md', 'before');
  write(
    'scripts/faults-table.mjs',
    `import { writeFileSync } from 'node:fs'; writeFileSync('test/faults/results.md', process.argv.join());`,
  );
  git('init', '-q');
  git('add', '-A');
  git('commit', '-q', '-m', 'all');
}

function run() {
  const command = [join(REPO, 'scripts/test-full.mjs')];
  const { status, stdout, stderr } = spawnSync(process.execPath, command, { cwd: root, encoding: 'utf8' });
  return { status, said: stdout + stderr };
}

it('passes when nothing but its own table differs from the commit', () => {
  commit();
  const { status, said } = run();
  expect(said).toContain('test:faults: passed');
  expect(status, said).toBe(0);
});

it.each(['src/source.ts', 'src/new.ts'])('begins nothing when %s differs from the commit', (name) => {
  commit();
  write(name, 'after');
  const { status, said } = run();
  expect(said).toContain('The tree differs from its commit');
  expect(said).toContain(name);
  expect(said).not.toContain('passed');
  expect(status).toBe(2);
});

it.each(['echo after > src/source.ts', 'echo after > src/new.ts'])('fails when %j runs meanwhile', (work) => {
  commit(work);
  const { status, said } = run();
  expect(said).toContain('the results are not those of one commit');
  expect(status).toBe(1);
});
