/**
 * The door through which commands print. Names, labels and messages come from models, files and requests, so whatever
 * passes is escaped here. Nothing else writes to standard output or standard error (test/unit/text/print.test.ts).
 */
import { visible, visibleJson } from './visible.js';

/** Prints lines to standard output. A line break within one is escaped. */
export function printLines(...lines: readonly string[]): void {
  process.stdout.write(joined(lines));
}

/** Prints text to standard output as it comes. Its line breaks stay. */
export function printText(text: string): void {
  process.stdout.write(text.split('\n').map(visible).join('\n'));
}

/** Prints lines to standard error. A line break within one is escaped. */
export function warnLines(...lines: readonly string[]): void {
  writeLines(process.stderr, ...lines);
}

export function writeLines(out: NodeJS.WritableStream, ...lines: readonly string[]): void {
  out.write(joined(lines));
}

/** Prints a value as JSON to standard output. */
export function printJson(value: unknown, indent = 2): void {
  process.stdout.write(`${visibleJson(JSON.stringify(value, null, indent))}\n`);
}

function joined(lines: readonly string[]): string {
  return lines.map((line) => `${visible(line)}\n`).join('');
}
