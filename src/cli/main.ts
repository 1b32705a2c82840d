#!/usr/bin/env node
import { Command } from 'commander';
import { VERSION } from '../version.js';
import { runProgram } from './run-program.js';

/** Imported when named: all together take a second, which a user of one would wait for. */
const COMMANDS: Readonly<Record<string, () => Promise<Command>>> = {
  serve: async () => (await import('./serve.js')).serveCommand(),
  worker: async () => (await import('./worker.js')).workerCommand(),
  ask: async () => (await import('./ask.js')).askCommand(),
  chat: async () => (await import('./ask.js')).chatCommand(),
  convert: async () => (await import('./convert.js')).convertCommand(),
  packs: async () => (await import('./packs.js')).packsCommand(),
  plan: async () => (await import('./plan.js')).planCommand(),
  trace: async () => (await import('./trace.js')).traceCommand(),
  train: async () => (await import('./train.js')).trainCommand(),
  eval: async () => (await import('./eval.js')).evalCommand(),
  bench: async () => (await import('./bench.js')).benchCommand(),
  key: async () => (await import('./key.js')).keyCommand(),
  doctor: async () => (await import('./doctor.js')).doctorCommand(),
};

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
