/** `sida doctor`: checks what this machine has and lacks, and says what to do about each finding. */
import { Command } from 'commander';
import { resolveOptions } from '../config/resolve.js';
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
      process.stdout.write(
        values.json === true ? `${JSON.stringify({ checks }, null, 2)}\n` : describe(checks),
      );
      if (checks.some(({ result }) => result === 'fail')) process.exitCode = EXIT.failure;
    });
  return addFlags(command, ['packDir', 'redis']);
}

function describe(checks: Check[]): string {
  const width = Math.max(...checks.map(({ name }) => name.length));
  // A finding may have several lines. Indent the later ones to the column of the first.
  const below = `\n${' '.repeat('warn'.length + 2 + width + 2)}`;
  return checks
    .map(({ name, result, found, hint }) => {
      const text = hint === undefined ? found : `${found}\n→ ${hint}`;
      return `${result.padEnd(4)}  ${name.padEnd(width)}  ${text.replaceAll('\n', below)}\n`;
    })
    .join('');
}
