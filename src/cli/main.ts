#!/usr/bin/env node
import { Command, CommanderError } from 'commander';
import { VERSION } from '../config/version.js';
import { benchCommand } from './bench.js';
import { convertCommand } from './convert.js';
import { dependencyCommand } from './dependency.js';
import { doctorCommand } from './doctor.js';
import { evalCommand } from './eval.js';
import { describeFailure, EXIT, exitCodeOf } from './exit.js';
import { keyCommand } from './key.js';
import { planCommand } from './plan.js';
import { profileCommand } from './profile.js';
import { serveCommand } from './serve.js';
import { traceCommand } from './trace.js';
import { trainCommand } from './train.js';
import { workerCommand } from './worker.js';

const program = new Command('sida')
  .description('Serves Mixture-of-Experts models in a fraction of the memory they need')
  .version(VERSION)
  // What follows a command is for it: `bench` and `bench replay` both have --json.
  .enablePositionalOptions()
  .showHelpAfterError('(sida help <command> shows what it takes)')
  .addHelpText(
    'after',
    '\nExit codes: 0 ok, 1 failure, 2 wrong usage, 4 bad checkpoint or pack' +
      '\n\nExample:\n  sida serve --model models/switch-mini --memory-budget 50%',
  );

for (const command of [
  serveCommand(),
  workerCommand(),
  convertCommand(),
  planCommand(),
  traceCommand(),
  trainCommand(),
  evalCommand(),
  dependencyCommand(),
  benchCommand(),
  profileCommand(),
  keyCommand(),
  doctorCommand(),
]) {
  program.addCommand(command);
}
settle(program);

/** What `program` says of errors holds for every command, also for those inside a group. */
function settle(command: Command): void {
  command.exitOverride();
  for (const inner of command.commands) settle(inner.copyInheritedSettings(command));
}

// A reader such as `head` may close early; that is its business.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit();
});

try {
  await program.parseAsync();
} catch (error) {
  if (error instanceof CommanderError) {
    // Commander has printed what there is to say. Help that was asked for is no error.
    process.exitCode = error.exitCode === 0 ? EXIT.ok : EXIT.usage;
  } else {
    process.stderr.write(`sida: ${describeFailure(error)}\n`);
    process.exitCode = exitCodeOf(error);
  }
}
