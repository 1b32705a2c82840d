/** Jobs of /v1/jobs that a fault follows one by one. */
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import { type Answer, ask } from '../support/http-client.js';
import { essence, type Question } from './golden.js';

// biome-ignore lint/suspicious/noExplicitAny: the job as the API tells it
type Record = any;

export class KeptJobs {
  readonly ids: string[];
  readonly #port: number;

  constructor(port: number, ids: string[]) {
    this.#port = port;
    this.ids = ids;
  }

  /** The records once all have ended, asked of the server at `port`. */
  async ended(port = this.#port, limitMs = 60_000): Promise<Record[]> {
    const end = performance.now() + limitMs;
    return Promise.all(
      this.ids.map(async (id) => {
        for (;;) {
          const { json, text } = await ask(port, `/v1/jobs/${id}`);
          if (json.finished_ms != null) return json;
          if (performance.now() > end) throw new Error(`not ended within ${limitMs} ms: ${text}`);
          await delay(25);
        }
      }),
    );
  }

  /** As `ended`; each job has its right answer. */
  async rightly(questions: Question[], port?: number, limitMs?: number): Promise<Record[]> {
    const records = await this.ended(port, limitMs);
    expect(records.map(({ status, answer }) => [status, essence(answer)])).toEqual(
      questions.map(({ right }) => ['completed', right]),
    );
    return records;
  }
}

export function keep(port: number, { type, body }: Question, key?: string): Promise<Answer> {
  const headers: { [name: string]: string } = key === undefined ? {} : { 'idempotency-key': key };
  return ask(port, '/v1/jobs', { method: 'POST', headers, body: { type, ...body } });
}

/** All are accepted. */
export async function keepAll(port: number, questions: Question[], key?: string): Promise<KeptJobs> {
  const answers = await Promise.all(
    questions.map((question, i) => keep(port, question, key && `${key}-${i}`)),
  );
  for (const { status, text } of answers) expect(status, text).toBe(202);
  return new KeptJobs(
    port,
    answers.map(({ json }) => json.id),
  );
}
