/**
 * What changes beside a server that runs: a task of its model is edited (F40), and a conversion is killed and begun again
 * (F41). Both leave the server nearly all of the machine.
 */
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { setPriority } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import { addTask } from '../support/changed-model.js';
import { SidaProcess } from '../support/sida-process.js';
import { TINY } from './subject.js';

const LOW_PRIORITY = 10;
/** Between two rounds. A conversion of the tiny model is half a second of one core, of which most is Node's start. */
const PAUSE_MS = 10_000;
/** Kills meet a conversion before, in and after its work. */
const MOST_MS = 1_000;

export class FileChanges {
  readonly #model: string;
  readonly #out: string;
  #stop = new AbortController();
  #working: Promise<void> = Promise.resolve();
  edited = 0;
  killed = 0;
  converted = 0;

  /** `model` is edited, and has its old content after `end`. Packs are made in `folder`. */
  constructor(model: string, folder: string) {
    this.#model = model;
    this.#out = join(folder, 'converted');
  }

  begin(): void {
    this.#stop = new AbortController();
    this.#working = this.#work(this.#stop.signal);
    // Told of by `end`.
    this.#working.catch(() => undefined);
  }

  async end(): Promise<void> {
    this.#stop.abort();
    await this.#working;
  }

  async #work(signal: AbortSignal): Promise<void> {
    const tasks = join(this.#model, 'sida.json');
    const before = readFileSync(tasks);
    while (!signal.aborted) {
      addTask(this.#model);
      this.edited += 1;
      await this.#killOne();
      await this.#convert();
      writeFileSync(tasks, before);
      await delay(PAUSE_MS, undefined, { signal }).catch(() => undefined);
    }
  }

  async #killOne(): Promise<void> {
    const process = this.#start();
    await Promise.race([process.exit, delay(MOST_MS * Math.random())]);
    if (process.alive) {
      await process.kill();
      this.killed += 1;
    }
    // It may have come to its end. What else it leaves stays.
    rmSync(this.#out, { recursive: true, force: true });
  }

  /** What the killed one left behind is no obstacle. */
  async #convert(): Promise<void> {
    const process = this.#start();
    expect(await process.exit, process.output).toBe(0);
    expect(process.output).not.toContain('Waits for');
    rmSync(this.#out, { recursive: true });
    this.converted += 1;
  }

  #start(): SidaProcess {
    const process = new SidaProcess(['convert', TINY, '--out', this.#out]);
    setPriority(process.child.pid!, LOW_PRIORITY);
    return process;
  }
}
