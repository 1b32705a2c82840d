/** What a server of OpenAI's API tells of a model, as the model of an engine. */
import { createHash } from 'node:crypto';
import { basename } from 'node:path';
import type { ModelInfo } from '../protocol/engine-messages.js';
import type { ChatFormat } from '../text/chat/answer-format.js';
import { MOST_INPUT_BYTES } from '../text/text-bytes.js';

/** Tokens that the other program is taken to hold at a time where it does not tell. */
export const USUAL_CONTEXT = 32_768;

/** An entry of /v1/models. vLLM, sida and llama.cpp tell the context under different names. */
export interface ListedModel {
  id: string;
  max_model_len?: number;
  context_tokens?: number | null;
  meta?: { n_ctx?: number } | null;
}

/**
 * The fingerprint covers the name alone: which weights another program has, cannot be known. Numbers that the other
 * server does not tell are those of a model that refuses nothing.
 */
export function upstreamModel(
  { id, max_model_len, context_tokens, meta }: ListedModel,
  alias: string | undefined,
): ModelInfo {
  const weights = createHash('sha256').update(`upstream ${id}`).digest('hex');
  const format = { dtype: 'unknown' };
  const context = max_model_len ?? context_tokens ?? meta?.n_ctx ?? null;
  const model = {
    name: alias ?? basename(id),
    fingerprint: weights,
    identity: { weights, tokenizer: null, tasks: null, chatTemplate: null, generation: null },
    shape: {
      family: 'upstream',
      vocabSize: Number.MAX_SAFE_INTEGER,
      experts: 0,
      firstExperts: [0],
      topK: 0,
      stacks: [{ name: 'decoder', causal: true, moeLayers: [] }],
      moeLayers: [],
      contextTokens: context,
    },
    formats: { experts: format, dense: format },
    activations: 'f32',
    contextTokens: context ?? Number.MAX_SAFE_INTEGER,
    kvTokens: context ?? USUAL_CONTEXT,
    maxInputBytes: MOST_INPUT_BYTES,
    sampling: null,
    tasks: {},
    hasTokenizer: true,
    description: null,
    languages: [],
    // The other server applies the template. What it does not split of an answer is read by these rules.
    chat: {
      answer: { kind: 'tags', reasoning: true, toolCalls: true },
      developerRole: true,
      reasoningField: 'reasoning_content',
      systemMessages: 'anywhere',
    } satisfies ChatFormat,
    predictor: { name: null, fingerprint: null },
    routing: 'exact',
  };
  return model as unknown as ModelInfo;
}
