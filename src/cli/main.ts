#!/usr/bin/env node
import { Command } from 'commander';
import { VERSION } from '../version.js';
import { askCommand, chatCommand } from './ask.js';
import { benchCommand } from './bench.js';
import { convertCommand } from './convert.js';
import { doctorCommand } from './doctor.js';
import { evalCommand } from './eval.js';
import { keyCommand } from './key.js';
import { packsCommand } from './packs.js';
import { planCommand } from './plan.js';
import { profileCommand } from './profile.js';
import { runProgram } from './run-program.js';
import { serveCommand } from './serve.js';
import { traceCommand } from './trace.js';
import { trainCommand } from './train.js';
import { workerCommand } from './worker.js';

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

for (const command of [
  serveCommand(),
  workerCommand(),
  askCommand(),
  chatCommand(),
  convertCommand(),
  packsCommand(),
  planCommand(),
  traceCommand(),
  trainCommand(),
  evalCommand(),
  benchCommand(),
  profileCommand(),
  keyCommand(),
  doctorCommand(),
]) {
  program.addCommand(command);
}

await runProgram(program, process.argv.slice(2));
