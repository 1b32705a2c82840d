// A process that answers each line of JSON with a line of JSON, one question at a time.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

export class LineProcess {
  #child;
  #lines;
  #name;

  /** `name` tells it apart in an error. */
  constructor(name, command, args, options = {}) {
    this.#name = name;
    this.#child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'], ...options });
    this.#child.on('error', () => {});
    this.#child.stdin.on('error', () => {});
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();
  }

  /** The next line it writes without being asked. */
  async next() {
    const { value, done } = await this.#lines.next();
    if (done) throw new Error(`${this.#name} ended with ${this.#child.exitCode ?? this.#child.signalCode}`);
    return JSON.parse(value);
  }

  ask(question) {
    this.#child.stdin.write(`${JSON.stringify(question)}\n`);
    return this.next();
  }

  /** Resolves when the process is gone. */
  async close() {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const gone = new Promise((resolve) => this.#child.once('close', resolve));
    this.#child.stdin.end();
    await gone;
  }
}
