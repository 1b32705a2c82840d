import type { ErrorAnswer } from '../middleware/errors.js';

/** The message of an error, for a shape that has no field for the parameter at fault. */
export function withParam({ message, param }: ErrorAnswer['error']): string {
  return param === null || message.includes(`"${param}"`) ? message : `${param}: ${message}`;
}
