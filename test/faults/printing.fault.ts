// Models whose names, tasks and tensors command terminals and shells.
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect } from 'vitest';
import { eventually } from '../support/eventually.js';
import { MINI, REPO } from '../support/server-process.js';
import { SidaProcess } from '../support/sida-process.js';
import { safetensors, TINY_CONFIG, tinyShapes, writeTiny, zeros } from '../support/tiny-checkpoint.js';
import { fault } from './fault.js';

const root = mkdtempSync(join(tmpdir(), 'sida-printing-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const at = (...names: string[]) => join(root, ...names);
/** Clears the screen, sets the title, forges a line, and turns the text around. */
const COMMANDS = '\u001b[2J\u001b]0;x\u0007\nsida: forged\r\u009b31m\u202e\u2028';
// biome-ignore lint/suspicious/noControlCharactersInRegex: those must not be there
const BARE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/;

function expectPlain(what: string, output: string): void {
  expect(output, what).not.toMatch(BARE);
  expect(output, what).not.toMatch(/^sida: forged/m);
}

/** Runs a command to its end. Its output is plain. */
function sida(what: string, args: string[]): { status: number | null; output: string } {
  const command = [join(REPO, 'bundle/cli/main.js'), ...args];
  const { status, stdout, stderr } = spawnSync(process.execPath, command, { cwd: root, encoding: 'utf8' });
  const output = stdout + stderr;
  expectPlain(what, output);
  expect(output.trim(), what).not.toBe('');
  return { status, output };
}

/** A tiny checkpoint with another file. */
function tinyWith(name: string, file: string, content: Buffer | string): string {
  writeTiny(at(name));
  writeFileSync(at(name, file), content);
  return at(name);
}

fault('names that command the terminal', async (report) => {
  const model = at(`m${COMMANDS}`.replace('/', ''));
  writeTiny(model);
  sida('a pack', ['convert', model, '--out', at('pack')]);
  const { header, data } = zeros({ ...tinyShapes(), [`encoder.${COMMANDS}`]: [1] });
  Object.assign(header[`encoder.${COMMANDS}`]!, { shape: [7] });
  const bad = tinyWith('bad', 'model.safetensors', safetensors(header, data));
  writeFileSync(at('text'), 'a text');
  const evaluate = (name: string, file: string, content: string) => [
    ...['eval', tinyWith(name, file, content), '--text', 'text', '--pack-dir', at('packs')],
  ];
  const config = (change: object) => JSON.stringify({ ...TINY_CONFIG, ...change });
  const tasks = JSON.stringify({ tasks: { [COMMANDS]: { template: 0 } } });
  // biome-ignore format: a table
  const commands: [what: string, args: string[], status: number][] = [
    ['convert', ['convert', model, '--out', at(`p${COMMANDS}`)], 0],
    ['plan', ['plan', model], 0],
    ['plan as JSON', ['plan', model, '--json'], 0],
    ['packs list', ['packs', 'list', '--pack-dir', root], 0],
    ['packs list as JSON', ['packs', 'list', '--pack-dir', root, '--json'], 0],
    ['no such model', ['plan', `none${COMMANDS}`], 4],
    ['no such command', [`serve${COMMANDS}`], 2],
    ['a bad option', ['plan', model, `--${COMMANDS}`], 2],
    ['a tensor', ['convert', bad, '--out', at('x')], 4],
    ['a config', evaluate('a', 'config.json', config({ model_type: COMMANDS })), 4],
    ['a field', evaluate('b', 'config.json', config({ num_experts: COMMANDS })), 4],
    ['no JSON', evaluate('c', 'config.json', `{"a": ${COMMANDS}`), 4],
    ['tasks', evaluate('d', 'sida.json', tasks), 4],
  ];
  for (const [what, args, expected] of commands) {
    const { status, output } = sida(what, args);
    expect([what, status], output).toEqual([what, expected]);
  }
  report.note(`${commands.length} commands print nothing that a terminal obeys`);
});

fault('the line to try a model with', async (report) => {
  const trap = at('trap');
  const names = [`'; touch ${trap}; '`, `$(touch ${trap})`, `\`touch ${trap}\``, `"\n touch ${trap} \n!!`];
  mkdirSync(at('bin'));
  writeFileSync(at('bin', 'curl'), `#!/bin/sh\nprintf '%s\\0' "$@" > ${root}/arguments\n`);
  chmodSync(at('bin', 'curl'), 0o755);
  cpSync(MINI, at('served'), { recursive: true, filter: (path) => !path.includes('predictor') });
  for (const name of [...names, COMMANDS]) {
    const tasks = { [name]: { template: `{a} ${name.replaceAll(/[{}]/g, '')}`, labels: [name, 'b'] } };
    writeFileSync(at('served', 'sida.json'), JSON.stringify({ tasks }));
    const flags = ['--pack-dir', at('packs'), '--memory-budget', '50%', '--port', '0'];
    const server = new SidaProcess(['serve', '--model', at('served'), ...flags]);
    await eventually(() => /\n {2}curl .*\n/.test(server.output) || !server.alive, 'the line', 60_000);
    await server.stop();
    expectPlain(name, server.output);
    const line = /\n {2}(curl .*)\n/.exec(server.output)![1]!;
    const env = { PATH: `${at('bin')}:${process.env.PATH}` };
    spawnSync('sh', [], { env, cwd: root, input: `${line}\n` });
    expect(existsSync(trap), line).toBe(false);
    const given = readFileSync(at('arguments'), 'utf8').split('\0');
    expect(JSON.parse(given.at(-2)!)).toMatchObject({ task: name });
  }
  report.note(`${names.length + 1} names of tasks paste as data`);
});
