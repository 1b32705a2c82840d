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

function base64(values: readonly number[]): string {
  const bytes = Buffer.alloc(4 * values.length);
  values.forEach((value, i) => {
    bytes.writeFloatLE(value, 4 * i);
  });
  return bytes.toString('base64');
}
