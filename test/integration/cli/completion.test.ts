// The scripts of `sida completion`, run by the shells that are installed.
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { COMMANDS } from '../../../src/cli/commands.js';
import { SERVE_OPTIONS } from '../../../src/config/options.js';
import { REPO } from '../../support/sida-process.js';

const folder = mkdtempSync(join(tmpdir(), 'sida-completion-'));
afterAll(() => rmSync(folder, { recursive: true }));

const installed = (shell: string) => spawnSync(shell, ['-c', 'true']).status === 0;

function script(shell: string): string {
  const file = join(folder, shell);
  const text = execFileSync(process.execPath, [join(REPO, 'bundle/cli/main.js'), 'completion', shell]);
  writeFileSync(file, text);
  return file;
}

describe.each(['bash', 'zsh', 'fish'])('%s', (shell) => {
  it.skipIf(!installed(shell))('reads its script', () => {
    const { status, stderr } = spawnSync(shell, ['-n', script(shell)]);
    expect([status, String(stderr)]).toEqual([0, '']);
  });
});

describe.skipIf(!installed('bash'))('bash', () => {
  /** What the last word may become. */
  const complete = (...words: string[]): string[] => {
    const program = `source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _sida; echo "\${COMPREPLY[*]}"`;
    const out = execFileSync('bash', ['-c', program, 'bash', join(folder, 'bash'), 'sida', ...words]);
    return String(out).trim().split(' ').filter(Boolean);
  };

  it('completes commands, their commands and their flags', () => {
    script('bash');
    expect(complete('').toSorted()).toEqual([...Object.keys(COMMANDS), 'help'].toSorted());
    expect(complete('se')).toEqual(['serve']);
    expect(complete('packs', '')).toEqual(['list', 'prune']);
    expect(complete('packs', 'prune', '--ol')).toEqual(['--older-than']);
    expect(complete('help', 'do')).toEqual(['doctor']);
    expect(complete('completion', 'z')).toEqual(['zsh']);
    const { metricsPort: _, ...options } = SERVE_OPTIONS;
    const flags = Object.values(options).map(({ flag }) => `--${flag}`);
    expect(complete('serve', 'models/x', '--')).toEqual(expect.arrayContaining(flags));
  });

  it('leaves files to the shell', () => {
    script('bash');
    expect(complete('serve', '')).toEqual([]);
    expect(complete('packs', 'prune', 'x')).toEqual([]);
  });
});
