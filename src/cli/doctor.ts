/** `sida doctor`: checks what this machine has and lacks, and says what to do about each finding. */

import { Command } from 'commander';
import { resolveOptions } from '../config/resolve.js';
import { printJson, printLines } from '../text/print.js';
import { type Check, checkMachine } from './doctor-checks.js';
import { EXIT } from './exit.js';
import { addFlags, givenFlags } from './flags.js';

export function doctorCommand(): Command {
  const command = new Command('doctor')
    .description('Check this machine: Node, native addon, CPU, CUDA, memory, disk, Redis')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      '\nExamples:\n  sida doctor\n  sida doctor --json --pack-dir /mnt/fast/packs\n  sida doctor --redis redis://10.0.0.5:6379',
    )
    .action(async (values: Record<string, unknown>) => {
      const { packDir, redis } = resolveOptions(['packDir', 'redis'], {
        flags: givenFlags(values),
        env: process.env,
      });
      const checks = await checkMachine(packDir, redis);
      if (values.json === true) printJson({ checks });
      else printLines(...describe(checks));
      if (checks.some(({ result }) => result === 'fail')) process.exitCode = EXIT.failure;
    });
  return addFlags(command, ['packDir', 'redis']);
}

function describe(checks: Check[]): string[] {
  const width = Math.max(...checks.map(({ name }) => name.length));
  // A finding may have several lines. Indent the later ones to the column of the first.
  const below = ' '.repeat('warn'.length + 2 + width + 2);
  return checks.flatMap(({ name, result, found, hint }) => {
    const text = hint === undefined ? found : `${found}\n→ ${hint}`;
    const [first, ...others] = text.split('\n');
    return [`${result.padEnd(4)}  ${name.padEnd(width)}  ${first}`, ...others.map((line) => below + line)];
  });
}
