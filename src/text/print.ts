/**
 * The door through which commands print. Names, labels and messages come from models, files and requests, so whatever
 * passes is escaped here. Nothing else writes to standard output or standard error (test/unit/text/print.test.ts).
 */
import { visible, visibleJson } from './visible.js';

/** A line that is drawn again and again at the end of the terminal. */
export interface LiveLine {
  clear(): void;
  draw(): void;
}

let live: LiveLine | undefined;

/** Keeps `line` below whatever is printed, until another line or undefined takes its place. */
export function setLiveLine(line: LiveLine | undefined): void {
  live = line;
}

export function aboveLiveLine(write: () => void): void {
  live?.clear();
  write();
  live?.draw();
}

/** Prints lines to standard output. A line break within one is escaped. */
export function printLines(...lines: readonly string[]): void {
  writeLines(process.stdout, ...lines);
}

/** Prints text to standard output as it comes. Its line breaks stay. */
export function printText(text: string): void {
  process.stdout.write(textShown(text));
}

/** The same in weak letters, which only a terminal has. */
export function printFaint(text: string): void {
  process.stdout.write(`\u001b[2m${textShown(text)}\u001b[22m`);
}

/** Prints lines to standard error. A line break within one is escaped. */
export function warnLines(...lines: readonly string[]): void {
  writeLines(process.stderr, ...lines);
}

export function writeLines(out: NodeJS.WritableStream, ...lines: readonly string[]): void {
  aboveLiveLine(() => out.write(lines.map((line) => `${visible(line)}\n`).join('')));
}

/** Prints a value as JSON to standard output. */
export function printJson(value: unknown, indent = 2): void {
  process.stdout.write(`${visibleJson(JSON.stringify(value, null, indent))}\n`);
}

function textShown(text: string): string {
  return text.split('\n').map(visible).join('\n');
}
