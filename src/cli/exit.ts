/** Exit codes, and the one line that goes with a failure. */
import { UsageError } from '../config/resolve.js';
import { type ErrorBody, SidaError } from '../errors.js';

export const EXIT = { ok: 0, failure: 1, usage: 2, badModel: 4 } as const;

/** Ends a command that may leave connections open, such as one that still tries to reach Redis. */
export function endProcess(code: number): void {
  process.exitCode = code;
  // What was written to a pipe is on its way still.
  process.stdout.write('', () => process.exit());
}

export function exitCodeOf(error: unknown): number {
  if (error instanceof UsageError) return EXIT.usage;
  return exitCodeOfBody(SidaError.from(error));
}

export function exitCodeOfBody({ code }: Pick<ErrorBody, 'code'>): number {
  return code === 'checkpoint_invalid' || code === 'pack_invalid' ? EXIT.badModel : EXIT.failure;
}

/** What a person can act on; a stack only where the fault is ours. */
export function describeFailure(error: unknown): string {
  // Errors of the addon are typed by their code alone.
  const typed = SidaError.from(error);
  if (error instanceof UsageError || error instanceof SidaError || typed.code !== 'internal') {
    return (error as Error).message;
  }
  const { name, message, code } = error as NodeJS.ErrnoException;
  return name === 'TypeError' || name === 'RangeError' || name === 'ReferenceError'
    ? `${(error as Error).stack}\nThis is a bug.`
    : code === undefined || message.includes(code)
      ? message
      : `${message} (${code})`;
}
