/** Runs a command line to its end. Every command treats errors, help and exit codes alike. */

import { type Command, CommanderError } from 'commander';
import { listed } from '../text/listed.js';
import { warnLines } from '../text/print.js';
import { describeFailure, EXIT, exitCodeOf } from './exit.js';

/** `args` is `process.argv` without its first two entries. A failure is printed and sets the exit code. */
export async function runProgram(program: Command, args: readonly string[]): Promise<void> {
  inheritSettings(program);
  // A reader such as `head` may close the pipe early. That is not a failure.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    process.exit();
  });
  try {
    await program.parseAsync(args, { from: 'user' });
  } catch (error) {
    if (error instanceof CommanderError) {
      // Commander has already printed its message. Requested help is not an error.
      process.exitCode = error.exitCode === 0 ? EXIT.ok : EXIT.usage;
    } else {
      const [first, ...others] = describeFailure(error);
      warnLines(`sida: ${first}`, ...others);
      process.exitCode = exitCodeOf(error);
    }
  }
}

/** Flags with an unknown one as a part, such as --api-keys for --keys. Commander suggests those of similar spelling. */
function meantFlags(text: string, { options }: Command): string[] {
  const name = /unknown option '--([\w-]+)'/.exec(text)?.[1];
  if (name === undefined || text.includes('Did you mean')) return [];
  const meant = options.flatMap(({ long }) =>
    long !== undefined && `${long}-`.includes(`-${name}-`) ? [long] : [],
  );
  return meant.length === 0 ? [] : [`(Did you mean ${listed(meant, 'or')}?)`];
}

/** Gives every command, including those inside a group, the error handling of `command`. */
function inheritSettings(command: Command): void {
  command.exitOverride();
  command.configureOutput({
    outputError: (text) =>
      warnLines(...text.trimEnd().split(/\n(?=\(Did you mean )/), ...meantFlags(text, command)),
  });
  for (const inner of command.commands) inheritSettings(inner.copyInheritedSettings(command));
}
