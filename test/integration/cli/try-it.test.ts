// The line to try a model with is pasted into shells. Names of a model must stay data there.
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { exampleCurl } from '../../../src/cli/try-it.js';
import { shellQuote } from '../../../src/text/shell-quote.js';
import { visible } from '../../../src/text/visible.js';
import { MODEL } from '../../unit/queue/scripted-engine.js';

const root = mkdtempSync(join(tmpdir(), 'sida-try-it-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const trap = join(root, 'trap');
const args = join(root, 'arguments');
// Notes its arguments, each before a NUL.
writeFileSync(join(root, 'curl'), `#!/bin/sh\nprintf '%s\\0' "$@" > ${args}\n`);
chmodSync(join(root, 'curl'), 0o755);

const SHELLS = ['sh', 'bash'].filter((shell) => spawnSync(shell, ['-c', 'true']).status === 0);

function run(shell: string, line: string): string[] {
  rmSync(args, { force: true });
  const env = { PATH: `${root}:${process.env.PATH}`, SIDA_API_KEY: 'k' };
  // As typed: an interactive bash would expand `!` before it runs the line.
  const input = shell === 'bash' ? `set -H; set -o history\n${line}\n` : `${line}\n`;
  spawnSync(shell, [], { cwd: root, env, input });
  expect(existsSync(trap), line).toBe(false);
  return readFileSync(args, 'utf8').split('\0').slice(0, -1);
}

const NAMES = [
  "it's",
  `'; touch ${trap}; '`,
  `$(touch ${trap})`,
  `\`touch ${trap}\``,
  `"; touch ${trap}; "`,
  `a\ntouch ${trap}\n`,
  `a\r\ntouch ${trap}\r\n`,
  'echo !! !touch',
  'back\\slash \\',
  '\u001b[31m\u009b\u202e\u{e0041}',
  '$IFS&|;<>#*?~',
];

describe.each(SHELLS)('in %s', (shell) => {
  it.each(NAMES)('a task named %j is an inert part of the line to try', (name) => {
    const task = { template: `a {x}`, labels: [name, 'b'] };
    const line = visible(
      exampleCurl({ ...MODEL, tasks: { [name]: task } }, 'http://[::1]:8080', '$SIDA_API_KEY'),
    );
    const given = run(shell, line);
    expect(given[0]).toBe('http://[::1]:8080/v1/classify');
    expect(given).toContain('authorization: Bearer k');
    expect(JSON.parse(given.at(-1)!)).toEqual({ task: name, input: 'violin' });
  });

  it.each(NAMES.filter((name) => !name.includes('!') && visible(name) === name))(
    'the quoted word %j is that word',
    (word) => {
      expect(run(shell, `curl ${shellQuote(word)}`)).toEqual([word]);
    },
  );
});
