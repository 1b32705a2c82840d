/** Logs to standard error, so that standard output carries only the output of commands. */
import { isatty } from 'node:tty';
import { type Logger, pino } from 'pino';
import { aboveLiveLine } from '../text/print.js';
import { visibleJson } from '../text/visible.js';
import { prettyLog } from './pretty-log.js';

export type { Logger };

/** `auto` is `pretty` on a terminal and `json` elsewhere. */
export function createLogger(level: string, format: 'auto' | 'pretty' | 'json'): Logger {
  const out = pino.destination({ fd: 2, sync: true });
  const pretty = format === 'pretty' || (format === 'auto' && isatty(2));
  // JSON escapes few of the characters that a terminal obeys.
  const text = pretty ? prettyLog : visibleJson;
  const write = (line: string) => aboveLiveLine(() => out.write(text(line)));
  return pino({ level, base: { pid: process.pid }, timestamp: pino.stdTimeFunctions.isoTime }, { write });
}
