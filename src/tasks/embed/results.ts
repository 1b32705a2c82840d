import type { JobResults, OwnResult } from '../task.js';
import type { EmbedResult } from './job.js';

export class EmbedResults implements JobResults<EmbedResult> {
  readonly #embeddings: number[][];

  constructor(inputs: number) {
    this.#embeddings = Array.from({ length: inputs }, () => []);
  }

  embedding(input: number, values: readonly number[]): void {
    this.#embeddings[input] = [...values];
  }

  finish(): OwnResult<EmbedResult> {
    return { embeddings: this.#embeddings, completionTokens: 0 };
  }
}
