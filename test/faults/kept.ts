/** Jobs of /v1/jobs that a fault follows one by one. */
import { setTimeout as delay } from 'node:timers/promises';
import { type Answer, ask } from '../support/http-client.js';
import type { Question } from './golden.js';

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
}

export function keep(port: number, { type, body }: Question, key?: string): Promise<Answer> {
  const headers: { [name: string]: string } = key === undefined ? {} : { 'idempotency-key': key };
  return ask(port, '/v1/jobs', { method: 'POST', headers, body: { type, ...body } });
}

/** All are accepted. */
export async function keepAll({ port }: { port: number }, questions: Question[]): Promise<KeptJobs> {
  const answers = await Promise.all(questions.map((question) => keep(port, question)));
  return new KeptJobs(
    port,
    answers.map(({ status, text, json }) => {
      if (status !== 202) throw new Error(`not accepted: ${status} ${text}`);
      return json.id;
    }),
  );
}
