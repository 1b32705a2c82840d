/** Logs JSON lines to standard error, so that standard output carries only the output of commands. */
import { type Logger, pino } from 'pino';
import { visibleJson } from '../text/visible.js';

export type { Logger };

export function createLogger(level: string): Logger {
  const out = pino.destination({ fd: 2, sync: true });
  // JSON escapes few of the characters that a terminal obeys.
  const escaping = { write: (lines: string) => out.write(visibleJson(lines)) };
  return pino({ level, base: { pid: process.pid }, timestamp: pino.stdTimeFunctions.isoTime }, escaping);
}
