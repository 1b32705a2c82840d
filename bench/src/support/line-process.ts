/** A process that answers each line of JSON with a line of JSON, one question at a time. */
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

export class LineProcess {
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;
  readonly #name: string;

  /** `name` tells it apart in an error. */
  constructor(name: string, command: string, args: readonly string[], options: SpawnOptions = {}) {
    this.#name = name;
    this.#child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'], ...options });
    // Its end is noticed by the lines that do not come.
    this.#child.on('error', () => {});
    this.#child.stdin!.on('error', () => {});
    this.#lines = createInterface({ input: this.#child.stdout! })[Symbol.asyncIterator]();
  }

  /** The next line that it writes without being asked. */
  async next<Answer>(): Promise<Answer> {
    const { value, done } = await this.#lines.next();
    if (done) throw new Error(`${this.#name} ended with ${this.#child.exitCode ?? this.#child.signalCode}`);
    return JSON.parse(value) as Answer;
  }

  ask<Answer>(question: unknown): Promise<Answer> {
    this.#child.stdin!.write(`${JSON.stringify(question)}\n`);
    return this.next<Answer>();
  }

  /** Resolves when the process is gone. */
  async close(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const gone = new Promise((resolve) => this.#child.once('close', resolve));
    this.#child.stdin!.end();
    await gone;
  }
}
