// Models whose names, tasks and tensors command terminals and shells.
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect } from 'vitest';
import { MINI, REPO } from '../support/server-process.js';
import { SidaProcess } from '../support/sida-process.js';
import { safetensors, TINY_CONFIG, tinyShapes, writeTiny, zeros } from '../support/tiny-checkpoint.js';
import { fault } from './fault.js';

const root = mkdtempSync(join(tmpdir(), 'sida-printing-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const trap = join(root, 'trap');
/** Clears the screen, sets the title, forges a line, and turns the text around. */
const COMMANDS = '\u001b[2J\u001b]0;x\u0007\nsida: forged\r\u009b31m\u202e\u2028';
const NAMES = [`'; touch ${trap}; '`, `$(touch ${trap})`, `\`touch ${trap}\``, `"\n touch ${trap} \n!!`];
// biome-ignore lint/suspicious/noControlCharactersInRegex: those must not be there
const BARE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/;

function expectPlain(what: string, output: string): void {
  expect(output, what).not.toMatch(BARE);
  expect(output, what).not.toMatch(/^sida: forged/m);
}

/** Runs a command to its end. */
function sida(...args: string[]): { status: number | null; output: string } {
  const command = [join(REPO, 'dist/cli/main.js'), ...args];
  const { status, stdout, stderr } = spawnSync(process.execPath, command, { cwd: root, encoding: 'utf8' });
  return { status, output: stdout + stderr };
}

fault('F46', 'names that command the terminal', async (report) => {
  const model = join(root, `m${COMMANDS}`.replace('/', ''));
  writeTiny(model);
  const pack = join(root, 'pack');
  expect(sida('convert', model, '--out', pack).status).toBe(0);
  const bad = join(root, 'bad');
  writeTiny(bad);
  const { header, data } = zeros({ ...tinyShapes(), [`encoder.${COMMANDS}`]: [1] });
  Object.assign(header[`encoder.${COMMANDS}`]!, { shape: [7] });
  const commands: [string, string[], number][] = [
    ['convert', ['convert', model, '--out', join(root, `p${COMMANDS}`)], 0],
    ['plan', ['plan', model], 0],
    ['plan as JSON', ['plan', model, '--json'], 0],
    ['packs list', ['packs', 'list', '--pack-dir', root], 0],
    ['packs list as JSON', ['packs', 'list', '--pack-dir', root, '--json'], 0],
    ['no such model', ['plan', `none${COMMANDS}`], 4],
    ['no such command', [`serve${COMMANDS}`], 2],
    ['a bad option', ['plan', model, `--${COMMANDS}`], 2],
  ];
  writeFileSync(join(bad, 'model.safetensors'), safetensors(header, data));
  commands.push(['a tensor', ['convert', bad, '--out', join(root, 'x')], 4]);
  const damaged: [string, string, object | string][] = [
    ['a config', 'config.json', { ...TINY_CONFIG, model_type: COMMANDS }],
    ['a field', 'config.json', { ...TINY_CONFIG, num_experts: COMMANDS }],
    ['no JSON', 'config.json', `{"a": ${COMMANDS}`],
    ['tasks', 'sida.json', { tasks: { [COMMANDS]: { template: 0 } } }],
  ];
  writeFileSync(join(root, 'text'), 'a text');
  for (const [what, file, content] of damaged) {
    const directory = join(root, `damaged ${what}`);
    writeTiny(directory);
    writeFileSync(join(directory, file), typeof content === 'string' ? content : JSON.stringify(content));
    commands.push([what, ['eval', directory, '--text', 'text', '--pack-dir', join(root, 'packs')], 4]);
  }
  const statuses: string[] = [];
  for (const [what, args, expected] of commands) {
    const { status, output } = sida(...args);
    expectPlain(what, output);
    if (status !== expected) statuses.push(`${what}: ${status}, expected ${expected}: ${output}`);
    expect(output.trim(), what).not.toBe('');
  }
  expect(statuses).toEqual([]);
  report.note(`${commands.length} commands print nothing that a terminal obeys`);
});

fault('F46', 'the line to try a model with', async (report) => {
  const bin = join(root, 'bin');
  mkdirSync(bin);
  writeFileSync(join(bin, 'curl'), `#!/bin/sh\nprintf '%s\\0' "$@" > ${root}/arguments\n`);
  chmodSync(join(bin, 'curl'), 0o755);
  for (const name of [...NAMES, COMMANDS]) {
    const model = join(root, 'served');
    rmSync(model, { recursive: true, force: true });
    mkdirSync(model);
    for (const file of ['config.json', 'model.safetensors', 'tokenizer.json']) {
      writeFileSync(join(model, file), readFileSync(join(MINI, file)));
    }
    const tasks = { [name]: { template: `{a} ${name.replaceAll(/[{}]/g, '')}`, labels: [name, 'b'] } };
    writeFileSync(join(model, 'sida.json'), JSON.stringify({ tasks }));
    const args = [
      '--model',
      model,
      '--pack-dir',
      join(root, 'packs'),
      '--memory-budget',
      '50%',
      '--port',
      '0',
    ];
    const server = new SidaProcess(['serve', ...args]);
    while (!/\n {2}curl .*\n/.test(server.output) && server.alive)
      await new Promise((r) => setTimeout(r, 50));
    await server.stop();
    expectPlain(name, server.output);
    const line = /\n {2}(curl .*)\n/.exec(server.output)![1]!;
    const env = { PATH: `${bin}:${process.env.PATH}` };
    spawnSync('sh', [], { env, cwd: root, input: `${line}\n` });
    expect(existsSync(trap), line).toBe(false);
    const given = readFileSync(join(root, 'arguments'), 'utf8').split('\0');
    expect(JSON.parse(given.at(-2)!)).toMatchObject({ task: name });
  }
  report.note(`${NAMES.length + 1} names of tasks paste as data`);
});
