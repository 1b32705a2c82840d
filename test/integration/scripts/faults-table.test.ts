import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { REPO } from '../../support/sida-process.js';

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'sida-table-'));
  mkdirSync(join(root, 'build'));
  const from = join(REPO, 'test/faults');
  for (const name of readdirSync(from).filter((each) => each.endsWith('.fault.ts'))) {
    cpSync(join(from, name), join(root, 'test/faults', name), { recursive: true });
  }
  const table = readFileSync(join(from, 'results.md'), 'utf8');
  const old = [
    row('F3', 'a worker frozen', 'old1'),
    row('F3', 'a server frozen', 'old1'),
    row('F5', 'renamed since', 'old1'),
    row('F6', 'Redis full', 'old1'),
  ];
  const head = '| | fault | what was counted | result | commit |\n|---|---|---|---|---|';
  writeFileSync(
    join(root, 'test/faults/results.md'),
    table.replace(/(<!-- faults:[^>]*-->\n)[\s\S]*?(<!-- end -->)/, `$1${head}\n${old.join('\n')}\n$2`),
  );
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

type Result = [id: string, fault: string, file: string];

const row = (id: string, fault: string, commit: string) =>
  `| ${id} | ${fault} | 1 | pass | ${commit}, 2026-01-01 |`;

function table(results: Result[], ...args: string[]) {
  return tableOf('new2', results, ...args);
}

function tableOf(commit: string, results: Result[], ...args: string[]) {
  const faults = results.map(([id, fault, file]) => ({
    ...{ id, fault, file, figures: ['1'], limits: [], passed: true, seconds: 1 },
    ...{ date: '2026-02-02', commit, machine: 'm' },
  }));
  writeFileSync(join(root, 'build/faults.json'), JSON.stringify({ faults }));
  const command = [join(REPO, 'scripts/faults-table.mjs'), ...args];
  const { status, stderr } = spawnSync(process.execPath, command, { cwd: root, encoding: 'utf8' });
  const text = readFileSync(join(root, 'test/faults/results.md'), 'utf8');
  const state = (id: string) => new RegExp(`^\\| ${id} \\|[^|]*\\| ([^|]*) \\|`, 'm').exec(text)![1];
  return { status, stderr, text, state };
}

const RUN: Result[] = [
  ['F3', 'a server frozen', 'F03-server-frozen.fault.ts'],
  ['F5', 'Redis absent', 'F05-redis-absent.fault.ts'],
];

describe('the table of the faults', () => {
  it('keeps results of other commits after a run of some, and drops names that are gone', () => {
    const { status, text, state } = table(RUN);
    expect(status).toBe(0);
    expect(text).toContain(row('F3', 'a worker frozen', 'old1'));
    expect(text).toContain('| F3 | a server frozen | 1 (1 s) | pass | new2, 2026-02-02 |');
    expect(text).not.toContain('renamed since');
    expect([state('F3'), state('F6')]).toEqual(['pass', 'pass']);
  });

  it('says after a run of all what was not run on that commit, and fails', () => {
    const { status, stderr, state } = table(RUN, '--full', 'new2');
    expect(status).toBe(1);
    // One of the two files of F3 gave no result, as when it throws while it is imported.
    expect([state('F3'), state('F5'), state('F6')]).toEqual([
      '**not run on this commit**',
      'pass',
      '**not run on this commit**',
    ]);
    expect(stderr).toMatch(/^F3: not run on this commit$/m);
    expect(stderr).toMatch(/^F6: not run on this commit$/m);
    expect(stderr).not.toMatch(/^F5:/m);
  });

  it('takes no result of edited sources for one of the commit', () => {
    const { status, state } = tableOf('new2-dirty', RUN, '--full', 'new2');
    expect([status, state('F5')]).toEqual([1, '**not run on this commit**']);
  });
});
