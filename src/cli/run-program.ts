/** Runs a command line to its end: errors, help and exit codes alike in every command. */
import { type Command, CommanderError } from 'commander';
import { describeFailure, EXIT, exitCodeOf } from './exit.js';

/** `args` as in `process.argv`, without the program's own two entries. Failures are printed and set the exit code. */
export async function runProgram(program: Command, args: readonly string[]): Promise<void> {
  inheritSettings(program);
  // A reader such as `head` may close the pipe early, which is no failure.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    process.exit();
  });
  try {
    await program.parseAsync(args, { from: 'user' });
  } catch (error) {
    if (error instanceof CommanderError) {
      // Commander has printed its message. Help that was asked for is no error.
      process.exitCode = error.exitCode === 0 ? EXIT.ok : EXIT.usage;
    } else {
      process.stderr.write(`sida: ${describeFailure(error)}\n`);
      process.exitCode = exitCodeOf(error);
    }
  }
}

/** How `program` treats errors holds for every command, also for those inside a group. */
function inheritSettings(command: Command): void {
  command.exitOverride();
  for (const inner of command.commands) inheritSettings(inner.copyInheritedSettings(command));
}
