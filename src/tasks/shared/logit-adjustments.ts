/** Request fields that penalize tokens or favour them, and what they become. */
import { z } from 'zod';
import type { ModelInfo } from '../../protocol/engine-messages.js';
import type { LogitAdjustments } from '../../protocol/sampling.js';
import { checkVocabulary } from './request-checks.js';

const MOST_PENALTY = 2;
const MOST_BIAS = 100;
/** Most tokens with a bias. */
const MOST_BIASES = 1024;
const TOKEN_ID = /^(0|[1-9]\d{0,9})$/;

const Penalty = z.number().min(-MOST_PENALTY).max(MOST_PENALTY).nullish();
const Bias = z.number().min(-MOST_BIAS).max(MOST_BIAS);
const TokenIdName = z.string().regex(TOKEN_ID, {
  error: ({ input }) =>
    `Expected a token id as the name, but got ${JSON.stringify(String(input).slice(0, 20))}`,
});

/** They apply with every temperature, also with 0. */
export const ADJUSTMENT_FIELDS = {
  presence_penalty: Penalty.meta({
    description: 'Taken from the logit of each token that the choice already has, −2 to 2. Default 0',
  }),
  frequency_penalty: Penalty.meta({
    description: 'Taken from it once for each time that the choice has the token, −2 to 2. Default 0',
  }),
  repetition_penalty: z.number().gt(0).nullish().meta({
    description:
      "Divides positive logits of tokens of the prompt and the choice, and multiplies negative ones. Default: the model's, else 1",
  }),
  logit_bias: z
    .record(TokenIdName, Bias)
    .refine((biases) => Object.keys(biases).length <= MOST_BIASES, {
      error: ({ input }) =>
        `Expected at most ${MOST_BIASES} token ids, found ${Object.keys(input as object).length}`,
    })
    .nullish()
    .meta({
      description: `Added to the logits of up to ${MOST_BIASES} tokens: an object of token ids and numbers from −100 to 100`,
    }),
};

export const storedAdjustments = z.object({
  presence: z.number().min(-MOST_PENALTY).max(MOST_PENALTY),
  frequency: z.number().min(-MOST_PENALTY).max(MOST_PENALTY),
  repetition: z.number().gt(0),
  biases: z.array(z.tuple([z.int().min(0), Bias])).max(MOST_BIASES),
});

/** Biases that take as long to apply as the rest of a token takes in a small model. */
const BIASES_PER_TOKEN = 256;

/** What a generated token is charged as: every pick applies all biases. */
export function chargedTokens({
  adjustments,
}: {
  adjustments?: Pick<LogitAdjustments, 'biases'> | undefined;
}) {
  return 1 + Math.ceil((adjustments?.biases.length ?? 0) / BIASES_PER_TOKEN);
}

export interface AdjustmentRequest {
  presence_penalty?: number | null | undefined;
  frequency_penalty?: number | null | undefined;
  repetition_penalty?: number | null | undefined;
  logit_bias?: Record<string, number> | null | undefined;
}

/** Returns undefined if nothing changes the logits. Throws invalid_request for a token that the model has not. */
export function adjustmentsOf(
  request: AdjustmentRequest,
  { shape, sampling }: Pick<ModelInfo, 'shape' | 'sampling'>,
): LogitAdjustments | undefined {
  const adjustments: LogitAdjustments = {
    presence: request.presence_penalty ?? 0,
    frequency: request.frequency_penalty ?? 0,
    repetition: request.repetition_penalty ?? sampling?.repetitionPenalty ?? 1,
    biases: Object.entries(request.logit_bias ?? {}).map(([id, bias]) => [Number(id), bias]),
  };
  checkBiases(adjustments, shape);
  const { presence, frequency, repetition, biases } = adjustments;
  const neutral = presence === 0 && frequency === 0 && repetition === 1 && biases.length === 0;
  return neutral ? undefined : adjustments;
}

/** The server has checked its requests; a job can also come from elsewhere. */
export function checkBiases(
  { biases }: Pick<LogitAdjustments, 'biases'>,
  shape: Pick<ModelInfo['shape'], 'vocabSize'>,
): void {
  checkVocabulary(
    biases.map(([id]) => id),
    shape,
    'logit_bias',
  );
}
