/**
 * Texts that wait for the tokenizer thread. Jobs take turns, those with shorter texts first, and none is passed more
 * than a few times.
 */
import type { IdsToDecode, TextToEncode } from '../protocol/tokenizer-messages.js';

export interface WaitingText<Owner> {
  work: TextToEncode | IdsToDecode;
  owner: Owner;
  /** Position among the texts of its owner. */
  index: number;
  bytes: number;
}

/** How often texts of jobs that came later may be taken before the next text of a job. */
const MOST_PASSED = 8;

interface Waiting<Owner> {
  /** The shortest first. */
  texts: WaitingText<Owner>[];
  passed: number;
}

export class TextQueue<Owner> {
  /** In the order of their turns: a new job goes last, and a job of which a text was taken. */
  readonly #jobs = new Map<Owner, Waiting<Owner>>();
  #size = 0;
  #bytes = 0;

  get size(): number {
    return this.#size;
  }

  get bytes(): number {
    return this.#bytes;
  }

  add(text: WaitingText<Owner>): void {
    const job = this.#jobs.get(text.owner) ?? { texts: [], passed: 0 };
    const at = job.texts.findLastIndex(({ bytes }) => bytes <= text.bytes) + 1;
    job.texts.splice(at, 0, text);
    this.#jobs.set(text.owner, job);
    this.#count(text, 1);
  }

  /** Removes the next text, and those after it while all together have at most `bytes`. */
  take(bytes: number): WaitingText<Owner>[] {
    const taken: WaitingText<Owner>[] = [];
    let sum = 0;
    for (let owner = this.#next(); owner !== undefined; owner = this.#next()) {
      const next = this.#jobs.get(owner)!.texts[0]!;
      sum += next.bytes;
      if (taken.length > 0 && sum > bytes) break;
      this.#turn(owner);
      taken.push(next);
    }
    return taken;
  }

  remove(owner: Owner): void {
    for (const text of this.#jobs.get(owner)?.texts ?? []) this.#count(text, -1);
    this.#jobs.delete(owner);
  }

  /** The first job if it was passed often enough; otherwise the one with the shortest text. */
  #next(): Owner | undefined {
    const [first] = this.#jobs;
    if (first === undefined || first[1].passed >= MOST_PASSED) return first?.[0];
    let [next, { texts }] = first;
    for (const [owner, job] of this.#jobs) {
      if (job.texts[0]!.bytes < texts[0]!.bytes) [next, { texts }] = [owner, job];
    }
    return next;
  }

  /** Takes the job's first text, and puts the job last. */
  #turn(owner: Owner): void {
    for (const [other, job] of this.#jobs) {
      if (other === owner) break;
      job.passed += 1;
    }
    const { texts } = this.#jobs.get(owner)!;
    this.#count(texts.shift()!, -1);
    this.#jobs.delete(owner);
    if (texts.length > 0) this.#jobs.set(owner, { texts, passed: 0 });
  }

  #count({ bytes }: WaitingText<Owner>, sign: 1 | -1): void {
    this.#size += sign;
    this.#bytes += sign * bytes;
  }
}
