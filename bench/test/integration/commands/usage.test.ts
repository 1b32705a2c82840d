// The laboratory's command line as a process: help, and what it says of wrong usage.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

const REPO = join(import.meta.dirname, '..', '..', '..', '..');
const MINI = join(REPO, 'models', 'switch-mini');

function bench(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    const main = join(REPO, 'bench', 'dist', 'main.js');
    execFile(process.execPath, [main, ...args], { timeout: 60_000 }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}

describe('sida bench', () => {
  it.each([
    [['--help'], 'sida bench --quick'],
    [['dependency', '--help'], 'sida bench dependency'],
  ])('helps with examples: %j', async (args, example) => {
    const { code, stdout } = await bench(...args);
    expect([code, stdout]).toEqual([0, expect.stringContaining(`Examples:\n  ${example}`)]);
  });

  it.each([
    [['--only', 'no-such-system']],
    [['--quick', '--rounds', '0']],
    [['--quick', '--data', join(REPO, 'no-such-folder')]],
    [['--bogus']],
    [['dependency', MINI, '--data', 'x.jsonl']],
    [['dependency', MINI, '--data', 'x.jsonl', '--task', 'sst2', '--shares', '0.5']],
  ])('exits 2 on wrong usage: %j', async (args) => {
    const { code, stdout, stderr } = await bench(...args);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).not.toMatch(/^\s+at /m);
    expect(stderr.length).toBeGreaterThan(20);
  });
});
