/** Reads messages: with line editing and history on a terminal, line by line elsewhere. */
import { createInterface, type Interface } from 'node:readline';
import { printText, warnLines } from '../../text/print.js';
import { causeOf } from '../../text/system-error.js';
import { History } from './history.js';

const PROMPT = '> ';
const MORE = '. ';
const QUOTES = '"""';
/** Thrown when Ctrl-C ends a message of several lines before its end. */
const ABANDONED = Symbol();

export class LineInput {
  readonly terminal = process.stdin.isTTY === true && process.stdout.isTTY === true;
  readonly #lines: string[] = [];
  readonly #reader: Interface;
  readonly #history: History | undefined;
  #closed = false;
  #abandoned = false;
  #wake: () => void = () => undefined;

  constructor() {
    const { terminal } = this;
    const { history, lines } = terminal ? openHistory() : { history: undefined, lines: [] };
    this.#history = history;
    this.#reader = createInterface({
      input: process.stdin,
      ...(terminal && {
        output: process.stdout,
        history: lines,
        historySize: 1000,
        removeHistoryDuplicates: true,
      }),
      terminal,
    });
    this.#reader.on('line', (line) => {
      this.#lines.push(line);
      this.#wake();
    });
    this.#reader.on('close', () => {
      this.#closed = true;
      this.#wake();
    });
    this.#reader.on('SIGINT', () => this.#interrupt());
    this.#pause();
  }

  /** The next message: one line, or several that a backslash or quotes join. Undefined at the end of the input. */
  async next(): Promise<string | undefined> {
    for (;;) {
      try {
        return await this.#message();
      } catch (error) {
        if (error !== ABANDONED) throw error;
      }
    }
  }

  async #message(): Promise<string | undefined> {
    const first = await this.#line(PROMPT);
    if (first === undefined) return undefined;
    if (first.startsWith(QUOTES)) return this.#quoted(first.slice(QUOTES.length));
    const lines = [first];
    while (lines.at(-1)!.endsWith('\\')) {
      const more = await this.#line(MORE);
      lines[lines.length - 1] = lines.at(-1)!.slice(0, -1);
      if (more === undefined) break;
      lines.push(more);
    }
    return lines.join('\n');
  }

  close(): void {
    this.#reader.close();
  }

  #interrupt(): void {
    const more = this.#reader.getPrompt() === MORE;
    const empty = this.#reader.line === '' && !more;
    printText(empty ? '\n(Ctrl-D or /bye ends the conversation)\n' : '\n');
    // These keys delete what stands before and behind the cursor.
    this.#reader.write(null, { ctrl: true, name: 'u' });
    this.#reader.write(null, { ctrl: true, name: 'k' });
    if (!more) this.#reader.prompt();
    else {
      this.#abandoned = true;
      this.#wake();
    }
  }

  async #quoted(first: string): Promise<string> {
    const lines: string[] = [];
    for (let line: string | undefined = first; line !== undefined; line = await this.#line(MORE)) {
      if (line.trimEnd().endsWith(QUOTES)) {
        lines.push(line.trimEnd().slice(0, -QUOTES.length));
        break;
      }
      lines.push(line);
    }
    return lines.join('\n').trim();
  }

  async #line(prompt: string): Promise<string | undefined> {
    if (this.#lines.length === 0 && !this.#closed) {
      this.#reader.setPrompt(prompt);
      if (this.terminal) {
        process.stdin.setRawMode(true);
        this.#reader.prompt();
      } else this.#reader.resume();
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      this.#pause();
    }
    if (this.#abandoned) {
      this.#abandoned = false;
      throw ABANDONED;
    }
    const line = this.#lines.shift();
    if (line !== undefined && line.trim() !== '') this.#keep(line);
    return line;
  }

  /** Between prompts the terminal turns Ctrl-C into a signal, and keeps what is typed for the next prompt. */
  #pause(): void {
    if (this.#closed) return;
    this.#reader.pause();
    if (this.terminal) process.stdin.setRawMode(false);
  }

  #keep(line: string): void {
    try {
      this.#history?.add(line);
    } catch {
      // The file was usable at the start. The conversation matters more than its history.
    }
  }
}

function openHistory(): { history: History | undefined; lines: string[] } {
  const history = new History();
  try {
    return { history, lines: history.load() };
  } catch (error) {
    warnLines(`sida: the lines are not kept for the next time: ${causeOf(error)}`);
    return { history: undefined, lines: [] };
  }
}
