import { z } from 'zod';
import { RESIDENCY_STATES } from '../../native/engine-types.js';
import { parseBytes, parseShare } from '../../text/bytes.js';

const SIZE = 'Expected a size such as 2GiB, 700MB or 50%, or a whole number of bytes';

export const BudgetRequest = z
  .strictObject({
    device: z
      .union([z.string().max(64), z.int().positive()], { error: SIZE })
      .transform(String)
      .refine((size) => (parseBytes(size) ?? 0) > 0 || parseShare(size) !== undefined, {
        error: SIZE,
      })
      .meta({ example: '1GiB' }),
  })
  .meta({ id: 'BudgetRequest' });

export const ProfileRequest = z
  .strictObject({ seconds: z.number().positive().max(60).meta({ example: 5 }) })
  .meta({ id: 'ProfileRequest' });

export const BudgetAnswer = z
  .object({
    device: z.object({
      budget_bytes: z.int(),
      used_bytes: z.int(),
      peak_bytes: z.int(),
      smallest_bytes: z.int(),
      kv: z
        .object({
          used_bytes: z.int().meta({ description: 'Pages of running sequences' }),
          cached_bytes: z.int().meta({ description: 'Pages that only the prefix cache keeps' }),
          free_bytes: z.int(),
        })
        .meta({ description: 'The KV cache' }),
      experts: z.object({
        slot_bytes: z.int().meta({ description: 'Room for experts' }),
        resident_bytes: z.int().meta({ description: 'Experts on the device' }),
      }),
    }),
    host: z.object({ budget_bytes: z.int(), used_bytes: z.int() }),
  })
  .meta({ id: 'Budget' });

const PredictionState = z.enum(['active', 'not_needed', 'off']).meta({
  description: 'not_needed: every expert has a slot; off: nothing names experts',
});

export const PredictorAnswer = z
  .object({
    function: z.string().nullable().meta({ description: 'What names experts; null without a predictor' }),
    state: PredictionState,
    look_ahead: PredictionState.meta({
      description: 'Routers of later layers, which name experts while a layer runs',
    }),
  })
  .meta({ id: 'Prediction' });

export const ExpertsAnswer = z
  .object({
    layers: z.array(
      z.object({
        layer: z.string().meta({ example: 'encoder.1' }),
        experts: z.array(
          z.object({
            index: z.int(),
            state: z.enum(RESIDENCY_STATES),
            pinned: z.boolean(),
            uses: z.int(),
          }),
        ),
      }),
    ),
  })
  .meta({ id: 'Residency' });
