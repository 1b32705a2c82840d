/** The experts of each generated token, which a request may ask for. */
import { z } from 'zod';
import { SidaError } from '../../errors.js';
import type { ChoiceFields } from './stored.js';

/** Most tokens of a request. Each takes kilobytes where a model has many layers. */
const MOST_TOKENS = 64;

export const TokenExperts = z
  .array(
    z.object({
      index: z.int().meta({ description: 'Of the choice' }),
      id: z.int(),
      token: z.string(),
      layers: z.array(
        z.object({
          layer: z.string().meta({ example: 'decoder.0' }),
          chosen: z.array(z.int()).meta({ description: 'Experts that computed it, the best first' }),
          predicted: z
            .array(z.int())
            .nullable()
            .meta({ description: 'The experts that its hash table named first; null without a table' }),
        }),
      ),
    }),
  )
  .meta({
    id: 'TokenExperts',
    description: 'Of each generated token, the experts of the pass that chose it',
  });

interface TokensAsked {
  include?: readonly string[] | null | undefined;
  /** Of all choices; null if the request does not say. */
  tokens: number | null;
  maxTokensField?: string;
}

/** Throws invalid_request for more tokens than answers have the experts of. */
export function tokenExpertsOf({ include, tokens, maxTokensField = 'max_tokens' }: TokensAsked) {
  if (!include?.includes('token_experts')) return {};
  if (tokens !== null && tokens <= MOST_TOKENS) return { tokenExperts: true };
  const found = tokens === null ? 'no limit' : tokens;
  throw new SidaError({
    code: 'invalid_request',
    message: `"include" of "token_experts" is for at most ${MOST_TOKENS} tokens of all choices; "${maxTokensField}" asks for ${found}`,
    param: maxTokensField,
  });
}

export function tokenExpertsAnswer(choices: readonly ChoiceFields[]): z.infer<typeof TokenExperts> {
  return choices.flatMap(({ index, tokenIds, experts = [] }) =>
    experts.map(({ token, layers }, at) => ({ index, id: tokenIds[at]!, token, layers })),
  );
}
