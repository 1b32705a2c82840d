/** Request fields of a generation that several tasks share, and what they become. */
import { randomInt } from 'node:crypto';
import { z } from 'zod';
import type { ModelSampling } from '../../checkpoint/model-sampling.js';
import { SidaError } from '../../errors.js';
import type { SamplingWish } from '../../protocol/engine-messages.js';
import { choiceSeed, type Sampling } from '../../protocol/sampling.js';
import { listOf } from '../../text/list-schema.js';

const MOST_STOPS = 4;
const STOP_BYTES = 1024;
/** Most choices of one prompt. */
const MOST_CHOICES = 16;
/** Largest accepted `top_k`. */
const MOST_TOP_K = 1_000_000;
/** Drawn seeds are below this number. */
const SEEDS = 2 ** 48 - 1;

const Stop = z
  .string()
  .min(1)
  .refine((stop) => Buffer.byteLength(stop) <= STOP_BYTES, {
    error: `A stop text may have ${STOP_BYTES} bytes`,
  });

/** A list of up to `most` stop texts. */
export const stopList = (most: number) => listOf(Stop, most);

export const STOP = z
  .union([Stop, stopList(MOST_STOPS)], {
    error: `Expected a text, or a list of up to ${MOST_STOPS} texts, each of 1 to ${STOP_BYTES} bytes`,
  })
  .nullish();

/** A field of OpenAI's API that is accepted only with values that have no effect. */
export function neutral<const T extends readonly (number | boolean | null)[]>(...values: T) {
  const [supported] = values.filter((value) => value !== null);
  return z
    .literal(values, {
      error:
        supported === undefined
          ? 'This server does not support it; leave it out'
          : `This server supports only ${supported}`,
    })
    .optional()
    .meta({ description: 'Accepted for compatibility' });
}

/** The model's own apply where a request has none. With a temperature of 0 only `n` has an effect. */
export const SAMPLING_FIELDS = {
  temperature: z.number().min(0).max(2).nullish().meta({
    description:
      "What logits are divided by before a token is drawn; 0: the likeliest is taken. Default: the model's, else 0",
  }),
  top_p: z.number().min(0).max(1).nullish().meta({
    description:
      "Draws from the likeliest tokens that together have this probability; 0: the likeliest. Default: the model's, else 1",
  }),
  top_k: z
    .int()
    .min(0)
    .max(MOST_TOP_K)
    .nullish()
    .meta({ description: "Draws from so many likeliest tokens; 0: all. Default: the model's, else 0" }),
  min_p: z.number().min(0).max(1).nullish().meta({
    description:
      "Draws from tokens with at least this share of the likeliest one's probability. Default: the model's, else 0",
  }),
  seed: z
    .int({ error: `Expected a whole number of 64 bits, from ${-(2n ** 63n)} to ${2n ** 64n - 1n}` })
    // The bounds that zod writes are those of 53 bits.
    .meta({ minimum: undefined, maximum: undefined, format: 'int64' })
    .nullish()
    .meta({
      description:
        'The same seed gives the same text at every budget and load; 64 bits. Default: drawn for each request',
    }),
  n: z.int().min(1).max(MOST_CHOICES).nullish().meta({
    description: 'Choices for each prompt; with beams, the best texts, best first. Default 1',
  }),
};

export type SamplingRequest = {
  [Name in 'temperature' | 'top_p' | 'top_k' | 'min_p' | 'seed']?: number | null | undefined;
};

/**
 * `own` is the model's. Returns undefined for greedy decoding. The seed is drawn here, so that a repeated run gives the
 * same text.
 */
export function samplingOf(
  request: SamplingRequest,
  own: Pick<ModelSampling, 'temperature' | 'topP' | 'topK' | 'minP'> | null,
): SamplingWish | undefined {
  const temperature = request.temperature ?? own?.temperature ?? 0;
  const topP = request.top_p ?? own?.topP ?? 1;
  if (temperature === 0 || topP === 0) return undefined;
  return {
    temperature,
    topP,
    topK: request.top_k ?? own?.topK ?? 0,
    minP: request.min_p ?? own?.minP ?? 0,
    seed: request.seed ?? randomInt(SEEDS),
  };
}

export function withoutDrawnSeed(
  job: { sampling?: SamplingWish | undefined },
  { seed }: SamplingRequest,
): unknown {
  if (job.sampling === undefined || seed != null) return job;
  return { ...job, sampling: { ...job.sampling, seed: null } };
}

/** Returns the sampling of each choice; null picks the most likely token. */
export function choicesOf({
  choices = 1,
  sampling,
}: {
  choices?: number;
  sampling?: SamplingWish;
}): (Sampling | null)[] {
  return Array.from({ length: choices }, (_, choice) => {
    return sampling === undefined ? null : { ...sampling, seed: choiceSeed(sampling.seed, choice) };
  });
}

export function stopsOf({ stop }: { stop?: string | string[] | null | undefined }): string[] {
  return typeof stop === 'string' ? [stop] : (stop ?? []);
}

/** The server has checked its requests; a job can also come from elsewhere. */
export function checkStops(stop: readonly string[]): void {
  if (!stop.includes('')) return;
  throw new SidaError({ code: 'invalid_request', message: 'A stop string is empty', param: 'stop' });
}
