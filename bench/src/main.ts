#!/usr/bin/env node
/** The laboratory's command line: `npm run bench -- …`, or `sida bench …` in a checkout. */
import { runProgram } from '../../dist/cli/run-program.js';
import { measureCommand } from './commands/measure.js';

await runProgram(measureCommand('sida bench'), process.argv.slice(2));
