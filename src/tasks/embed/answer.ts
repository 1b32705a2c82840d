/** Builds the answer of embeddings, in OpenAI's format. */
import { expertsAnswer } from '../shared/schema.js';
import type { AnswerAbout } from '../task.js';
import type { EmbedForm, EmbedResult } from './job.js';
import type { EmbeddingAnswer } from './schema.js';

export function embeddingAnswer(
  { model, form }: AnswerAbout<EmbedForm>,
  { embeddings, promptTokens, experts }: EmbedResult,
): typeof EmbeddingAnswer._output {
  return {
    object: 'list',
    model,
    data: embeddings.map((values, index) => {
      return { object: 'embedding', index, embedding: form.base64 ? base64(values) : values };
    }),
    usage: { prompt_tokens: promptTokens, total_tokens: promptTokens },
    ...(form.experts && { experts: expertsAnswer(experts) }),
  };
}

/** Little-endian, as every machine that this runs on is. */
function base64(values: readonly number[]): string {
  return Buffer.from(Float32Array.from(values).buffer).toString('base64');
}
