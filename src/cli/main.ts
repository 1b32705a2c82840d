#!/usr/bin/env node
import { Command } from 'commander';
import { VERSION } from '../version.js';
import { COMMANDS } from './commands.js';
import { runProgram } from './run-program.js';

const program = new Command('sida')
  .description('Serves Mixture-of-Experts models in a fraction of the memory they need')
  .version(VERSION)
  // Options after `bench` belong to the laboratory.
  .enablePositionalOptions()
  .showHelpAfterError('(sida help <command> shows what it takes)')
  .addHelpText(
    'after',
    '\nExit codes: 0 ok, 1 failure, 2 wrong usage, 4 bad checkpoint or pack' +
      '\n\nExample:\n  sida serve --model models/switch-words --memory-budget 50%',
  );

const args = process.argv.slice(2);
const named = Object.hasOwn(COMMANDS, args[0] ?? '') ? [COMMANDS[args[0]!]!] : Object.values(COMMANDS);
for (const load of named) program.addCommand(await load());

await runProgram(program, args);
