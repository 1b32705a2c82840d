/** Exit codes, and the message that goes with a failure. */
import { UsageError } from '../config/resolve.js';
import { type ErrorBody, SidaError } from '../errors.js';
import { causeOf } from '../text/system-error.js';

export const EXIT = { ok: 0, failure: 1, usage: 2, badModel: 4 } as const;

/** Ends the process even when connections are still open, such as one that keeps trying to reach Redis. */
export function endProcess(code: number): void {
  process.exitCode = code;
  // Output to a pipe may not be flushed yet, so exit after one more write has completed.
  process.stdout.write('', () => process.exit());
}

export function exitCodeOf(error: unknown): number {
  if (error instanceof UsageError) return EXIT.usage;
  return exitCodeOfBody(SidaError.from(error));
}

export function exitCodeOfBody({ code }: Pick<ErrorBody, 'code'>): number {
  if (code === 'checkpoint_invalid' || code === 'pack_invalid') return EXIT.badModel;
  return code === 'budget_too_small' ? EXIT.usage : EXIT.failure;
}

/** Lines that describe a failure for the user. Only a bug in sida gets a stack trace. */
export function describeFailure(error: unknown): string[] {
  // Errors of the addon carry a code and are not instances of SidaError.
  const typed = SidaError.from(error);
  if (error instanceof UsageError || error instanceof SidaError || typed.code !== 'internal') {
    return [(error as Error).message];
  }
  const { name, message, code, path } = error as NodeJS.ErrnoException;
  if (path !== undefined) return [`${path}: ${causeOf(error)}`];
  const bug = name === 'TypeError' || name === 'RangeError' || name === 'ReferenceError';
  if (bug) return [...(error as Error).stack!.split('\n'), 'This is a bug.'];
  const text = code === undefined || message.includes(code) ? message : `${message} (${code})`;
  return text.split('\n');
}
