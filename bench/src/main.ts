#!/usr/bin/env node
/** The laboratory's command line: `npm run bench -- …`, or `sida bench …` in a checkout. */
import { runProgram } from '../../dist/cli/run-program.js';
import { dependencyCommand } from './commands/dependency.js';
import { measureCommand } from './commands/measure.js';
import { placementCommand } from './commands/placement.js';
import { replayCommand } from './commands/replay.js';

const program = measureCommand('sida bench')
  .addCommand(replayCommand())
  .addCommand(placementCommand())
  .addCommand(dependencyCommand());

await runProgram(program, process.argv.slice(2));
