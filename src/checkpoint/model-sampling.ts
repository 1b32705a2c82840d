/** How tokens are sampled by the advice of a model's own generation_config.json, or of its GGUF file. */
import { z } from 'zod';
import { SidaError } from '../errors.js';
import { MOST_SETTINGS, parseJson } from '../text/one-line.js';

/** What requests that do not say get. Greedy decoding has no such values. */
export interface ModelSampling {
  /** Above 0. */
  temperature: number;
  topP: number;
  /** 0 means all. */
  topK: number;
  minP: number;
  /** 1 changes nothing. */
  repetitionPenalty: number;
}

const schema = z.looseObject({
  do_sample: z.boolean().nullish(),
  temperature: z.number().min(0).nullish(),
  top_p: z.number().gt(0).max(1).nullish(),
  top_k: z.int().min(-1).nullish(),
  min_p: z.number().min(0).max(1).nullish(),
  repetition_penalty: z.number().gt(0).nullish(),
});

/**
 * Undefined where the file advises greedy decoding or says nothing of sampling. `path` names the file in errors. Throws
 * checkpoint_invalid.
 */
export function parseModelSampling(json: Buffer | undefined, path: string): ModelSampling | undefined {
  if (json === undefined) return undefined;
  const found = parsed(json, path);
  const { do_sample: samples, temperature, top_p, top_k, min_p, repetition_penalty } = found;
  const says = samples ?? [temperature, top_p, top_k, min_p].some((value) => value != null);
  if (!says || temperature === 0) return undefined;
  return {
    temperature: temperature ?? 1,
    topP: top_p ?? 1,
    topK: Math.max(0, top_k ?? 0),
    minP: min_p ?? 0,
    repetitionPenalty: repetition_penalty ?? 1,
  };
}

function parsed(json: Buffer, path: string): z.infer<typeof schema> {
  try {
    return parseJson(json, schema, MOST_SETTINGS);
  } catch (error) {
    throw new SidaError({ code: 'checkpoint_invalid', message: `${path}: ${(error as Error).message}` });
  }
}
