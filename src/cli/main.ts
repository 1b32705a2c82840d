#!/usr/bin/env node
import { Command } from 'commander';
import { printLines } from '../text/print.js';
import { VERSION } from '../version.js';
import { COMMANDS, loadCommand } from './commands.js';
import { runProgram } from './run-program.js';

const program = new Command('sida')
  .description('Serves Mixture-of-Experts models in a fraction of the memory they need')
  .version(VERSION, '-v, --version')
  // Options after `bench` belong to the laboratory.
  .enablePositionalOptions()
  .showHelpAfterError('(sida help <command> shows what it takes)')
  .addHelpText(
    'after',
    '\nExit codes: 0 ok, 1 failure, 2 wrong usage, 4 bad checkpoint or pack' +
      '\n\nExample:\n  sida serve --model models/switch-words --memory-budget 50%',
  );

program.command('version', { hidden: true }).action(() => printLines(VERSION));

const args = process.argv.slice(2);
const isCommand = (name: string) => Object.hasOwn(COMMANDS, name);
const first = args[0] ?? '';
const [word, second] = args.filter((arg) => !arg.startsWith('-'));
for (const [name, { takes, about }] of Object.entries(COMMANDS)) {
  if (isNeeded(name)) program.addCommand(await loadCommand(name));
  // Only a line of the help. Commander reads [options] as an argument.
  else program.command(`${name} ${takes}`).description(about);
}

await runProgram(program, unknownName() ?? args);

/** Whether this run loads the module of that command. The script of a shell needs the flags of all. */
function isNeeded(name: string): boolean {
  return word === 'completion' || name === (word === 'help' ? second : word);
}

/** The name of a command that does not exist, alone: commander then suggests another, also for `NAME --help`. */
function unknownName(): string[] | undefined {
  const name = first === 'help' ? args[1] : first;
  const known = name === undefined || /^(-|$|help$|version$)/.test(name) || isCommand(name);
  return known ? undefined : [name];
}
