/** `options` of requests, and what the tasks make of them. */
import { z } from 'zod';
import { ADJUSTMENT_FIELDS, type AdjustmentRequest } from '../../../tasks/shared/logit-adjustments.js';
import type { SamplingRequest } from '../../../tasks/shared/sampling.js';
import { neutral, SAMPLING_FIELDS, stopList } from '../../../tasks/shared/sampling.js';

const MOST_STOPS = 16;

const Whole = z.int().nullish();
const Switch = z.boolean().nullish();

/** Options about how a model is loaded and computed. The server's own options decide that. */
const WITHOUT_EFFECT = {
  num_ctx: z.int().min(1).nullish(),
  num_keep: Whole,
  num_batch: Whole,
  num_gpu: Whole,
  main_gpu: Whole,
  num_thread: Whole,
  mirostat_tau: z.number().nullish(),
  mirostat_eta: z.number().nullish(),
  numa: Switch,
  low_vram: Switch,
  f16_kv: Switch,
  logits_all: Switch,
  vocab_only: Switch,
  use_mmap: Switch,
  use_mlock: Switch,
  embedding_only: Switch,
};

export const Options = z
  .strictObject({
    temperature: SAMPLING_FIELDS.temperature,
    top_p: SAMPLING_FIELDS.top_p,
    top_k: SAMPLING_FIELDS.top_k,
    min_p: SAMPLING_FIELDS.min_p,
    seed: SAMPLING_FIELDS.seed,
    repeat_penalty: ADJUSTMENT_FIELDS.repetition_penalty,
    presence_penalty: ADJUSTMENT_FIELDS.presence_penalty,
    frequency_penalty: ADJUSTMENT_FIELDS.frequency_penalty,
    num_predict: z.int().min(-2).nullish().meta({
      description: 'Most tokens of the answer; below 1: what the context has left',
    }),
    stop: z
      .union([
        z
          .string()
          .min(1)
          .transform((stop) => [stop]),
        stopList(MOST_STOPS),
      ])
      .nullish(),
    repeat_last_n: z.int().min(-1).nullish(),
    mirostat: neutral(0, null),
    tfs_z: neutral(1, null),
    typical_p: neutral(1, null),
    penalize_newline: neutral(true, null),
    ...WITHOUT_EFFECT,
  })
  .check(({ value, issues }) => {
    const { repeat_last_n: last, repeat_penalty, presence_penalty, frequency_penalty } = value;
    const penalized = (repeat_penalty ?? 1) !== 1 || presence_penalty || frequency_penalty;
    if (last == null || last === -1 || !penalized) return;
    const message = 'Expected -1: penalties regard all tokens of the prompt and the answer';
    issues.push({ code: 'custom', message, path: ['repeat_last_n'], input: last });
  })
  .nullish()
  .meta({ description: 'Sampling; options about loading and hardware have no effect' });

export type GivenOptions = z.infer<typeof Options>;

/** A seed of -1 is drawn, and so is one that is absent. */
export function samplingFields(options: GivenOptions): SamplingRequest & AdjustmentRequest {
  const { temperature, top_p, top_k, min_p, seed, ...others } = options ?? {};
  return {
    temperature,
    top_p,
    top_k,
    min_p,
    seed: seed === -1 ? null : seed,
    repetition_penalty: others.repeat_penalty,
    presence_penalty: others.presence_penalty,
    frequency_penalty: others.frequency_penalty,
  };
}

/** Null for what the context has left. */
export function mostTokens(options: GivenOptions): number | null {
  const { num_predict: most } = options ?? {};
  return most == null || most < 1 ? null : most;
}
