/** Runs a command in a pseudo-terminal, which `script` of util-linux makes. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { join } from 'node:path';
import { shellQuote } from '../../src/text/shell-quote.js';
import { REPO } from './sida-process.js';

export class Terminal {
  readonly exit: Promise<number | null>;
  readonly #child: ChildProcess;
  /** What the terminal got, control characters included. */
  output = '';

  constructor(args: readonly string[], env: NodeJS.ProcessEnv = {}) {
    const command = [process.execPath, join(REPO, 'bundle/cli/main.js'), ...args].map(shellQuote).join(' ');
    this.#child = spawn('script', ['-qec', `exec ${command}`, '/dev/null'], {
      cwd: REPO,
      env: { ...process.env, TERM: 'xterm', ...env },
    });
    this.#child.stdout!.on('data', (piece: Buffer) => {
      this.output += String(piece);
    });
    this.exit = new Promise((resolve) => this.#child.once('close', resolve));
  }

  type(keys: string): void {
    this.#child.stdin!.write(keys);
  }

  /** Resolves when `text` is shown after the characters that were there before the call of `from`. */
  async shows(text: string | RegExp, from = 0): Promise<void> {
    for (let tries = 0; tries < 3_000; tries++) {
      const now = this.output.slice(from);
      if (typeof text === 'string' ? now.includes(text) : text.test(now)) return;
      if (this.#child.exitCode !== null) break;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    throw new Error(`the terminal does not show ${text}:\n${JSON.stringify(this.output)}`);
  }

  end(): void {
    this.#child.kill('SIGHUP');
  }

  /** The lines that a person sees at the end. */
  get screen(): string[] {
    return screenOf(this.output);
  }
}

export const hasTerminals = (() => {
  try {
    return String(execFileSync('script', ['--version'])).includes('util-linux');
  } catch {
    return false;
  }
})();

/** Obeys what bars and the line editor use: return, line feed, clearing, movements within a line. */
export function screenOf(output: string): string[] {
  const lines = [''];
  let column = 0;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: those are what it obeys
  const codes = /\u001b\[(\??)([\d;]*)([A-Za-z])|\u001b.|[\r\n\b]|[^\u001b\r\n\b]+/g;
  for (const [text, priv, digits, code] of output.matchAll(codes)) {
    const line = lines.length - 1;
    if (text === '\r') column = 0;
    else if (text === '\n') {
      lines.push('');
      column = 0;
    } else if (text === '\b') column -= 1;
    else if (code !== undefined) {
      if (priv !== '') continue;
      const count = Number(digits || (code === 'K' || code === 'J' ? 0 : 1));
      if (code === 'K' || code === 'J') lines[line] = lines[line]!.slice(0, count === 2 ? 0 : column);
      else if (code === 'G') column = count - 1;
      else if (code === 'C') column += count;
      else if (code === 'D') column -= count;
    } else if (!text!.startsWith('\u001b')) {
      const before = lines[line]!.padEnd(column);
      lines[line] = before.slice(0, column) + text + before.slice(column + text!.length);
      column += text!.length;
    }
  }
  return lines;
}
