// What `--help` and `--help-all` print.
import { type Command, type CommanderError, Help } from 'commander';
import { describe, expect, it } from 'vitest';
import { COMMANDS, loadCommand } from '../../../src/cli/commands.js';
import { MODEL_OPTIONS } from '../../../src/config/model-options.js';
import { OPTION_GROUPS, shownDefault } from '../../../src/config/option.js';
import { SERVE_OPTIONS } from '../../../src/config/options.js';

const MOST_LINES = 60;

/** What the command prints for `args` on a terminal of `width` columns. */
async function helpOf(command: Command, args: string[], width: number): Promise<string> {
  let text = '';
  const writeOut = (part: string) => {
    text += part;
  };
  command.configureOutput({ writeOut, getOutHelpWidth: () => width }).exitOverride();
  await command.parseAsync(args, { from: 'user' }).catch((error: CommanderError) => {
    expect([error.code, error.exitCode]).toEqual([expect.stringMatching(/^commander\.help/), 0]);
  });
  return text.trimEnd();
}

async function all(): Promise<Command[]> {
  const loaded = await Promise.all(Object.keys(COMMANDS).map(loadCommand));
  const commands = loaded.flatMap((command) => [command, ...command.commands]);
  // The --help of bench is the laboratory's.
  return commands.filter((command) => command.name() !== 'bench');
}

describe.each([80, 120])('--help of every command on %i columns', (width) => {
  it(`has at most ${MOST_LINES} lines, and an example`, async () => {
    for (const command of await all()) {
      const help = await helpOf(command, ['--help'], width);
      expect(help.split('\n').length, command.name()).toBeLessThanOrEqual(MOST_LINES);
      expect(help, command.name()).toMatch(/\nExamples?:\n {2}.*sida \w+/);
    }
  });
});

it('lists each command with the options and arguments that it takes', async () => {
  for (const [name, { takes }] of Object.entries(COMMANDS))
    expect(`${name} ${takes}`.trim()).toBe(new Help().subcommandTerm(await loadCommand(name)));
});

describe('sida serve', () => {
  const help = async (flag: string) => helpOf(await loadCommand('serve'), [flag], 1000);
  const { metricsPort: _, ...options } = SERVE_OPTIONS;

  it('lists common options under their headings, and experts’ options in --help-all only', async () => {
    const [short, long] = [await help('--help'), await help('--help-all')];
    for (const { flag, expert } of Object.values(options)) {
      expect(short.includes(`  --${flag} `), flag).toBe(expert === undefined);
      expect(long, flag).toContain(`  --${flag} `);
    }
    const headings = Object.values(OPTION_GROUPS).map((title) => `${title}:`);
    for (const text of [short, long])
      expect(text.split('\n').filter((line) => headings.includes(line))).toEqual(headings);
  });

  it('tells environment name, default, unit and reason of each option in --help-all', async () => {
    const lines = (await help('--help-all')).split('\n');
    for (const option of Object.values(options)) {
      const line = lines.find((each) => each.trim().startsWith(`--${option.flag} `));
      for (const part of [option.env, option.unit, option.help, option.more, shownDefault(option)])
        if (part !== undefined) expect(line).toContain(part);
    }
  });

  it('names the options that one of several models may have for itself', async () => {
    const notes = (await help('--help-all')).split('Several models:')[1]!.replace(/\s+/g, ' ');
    for (const name of MODEL_OPTIONS) expect(notes).toContain(SERVE_OPTIONS[name].flag);
  });
});
