import { z } from 'zod';
import { RESIDENCY_STATES } from '../../native/engine-types.js';
import { GOVERNOR_STATES } from '../../protocol/governor-figures.js';
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

const Window = z.object({
  windows: z.int(),
  passes: z.int(),
  tokens: z.int(),
  seconds: z.number().meta({ description: 'Time of the inference thread, waits included' }),
});

/** What a governor says of the source that it measures. */
const governed = (source: string, absent: string) => ({
  governor: z.enum(['on', 'off']).meta({ description: '`--governor`; off where tables route, too' }),
  state: z.enum(GOVERNOR_STATES).meta({
    description:
      `active: passes use ${source}; resting: they do not, because it does not pay; probing: both in turn; ` +
      `not_needed: every expert has a slot; off: ${absent}`,
  }),
  gain: z
    .object({
      mean: z.number(),
      low: z.number(),
      high: z.number(),
      pairs: z.int().meta({ description: 'Pairs of windows that were compared' }),
    })
    .nullable()
    .meta({
      description: `Share of time saved with ${source}, with its 95 % interval; null before it was measured`,
    }),
  measured: z.object({ predict: Window, rest: Window }).meta({
    description: `Sums over all measured windows, with ${source} and without`,
  }),
  switches: z.int(),
  pause_seconds: z.number().meta({ description: 'Working time until the next measurement' }),
});

export const PredictorAnswer = z
  .object({
    function: z.string().nullable().meta({ description: 'What names experts; null without a predictor' }),
    ...governed('hash tables', 'there is no predictor'),
    look_ahead: z
      .object(governed('the routers of later layers', '`--look-ahead-layers 0`'))
      .meta({ description: 'Experts that the routers of later layers name while a layer runs' }),
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
