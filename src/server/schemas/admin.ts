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

const KEEPERS = z.enum(['target', 'pressure']);

export const BudgetAnswer = z
  .object({
    device: z.object({
      budget_bytes: z.int(),
      used_bytes: z.int(),
      peak_bytes: z.int(),
      smallest_bytes: z.int(),
      driver_bytes: z.int().meta({ description: "What a GPU's driver takes; 0 on a CPU" }),
      dense_bytes: z.int().meta({ description: 'Weights outside of experts' }),
      workspace_bytes: z.int(),
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
        all_bytes: z.int().meta({ description: 'Room that all experts of the model would take' }),
        token_bytes: z.int().meta({ description: 'Room that the experts of one token take' }),
      }),
    }),
    disk_bytes_per_second: z
      .number()
      .meta({ description: 'Measured at the start, in reads of one expert; 0 if it was not' }),
    host: z.object({ budget_bytes: z.int(), used_bytes: z.int() }),
    peers: z
      .array(
        z.object({
          address: z.string().meta({ example: '10.0.0.6:7500' }),
          connected: z.boolean(),
          error: z.string().nullable().meta({ description: 'Why it is not connected' }),
          held: z.int().meta({ description: 'Experts that it holds' }),
          experts: z.int().meta({ description: 'Experts that it computed' }),
          failures: z.int().meta({ description: 'Requests to it without an answer' }),
          sent_bytes: z.int(),
          received_bytes: z.int(),
          round_trip_ms: z
            .number()
            .meta({ description: 'As measured when it was connected; 0 if it never was' }),
          bytes_per_second: z.number(),
        }),
      )
      .optional()
      .meta({ description: 'With --expert-peers; counts since the engine started' }),
    kept: z
      .object({
        cap_bytes: z.int().meta({ description: "The operator's last budget" }),
        by: KEEPERS.nullable().meta({ description: 'Why the budget is below the cap' }),
        ratio: z.number().nullable().meta({ description: 'Measured over target; above 1 it is missed' }),
        unmet: z.string().nullable().meta({ description: 'Why the target cannot be met' }),
      })
      .optional()
      .meta({ description: 'With a latency target or --memory-pressure' }),
  })
  .meta({ id: 'Budget' });

export const PredictorRequest = z
  .strictObject({
    enabled: z.boolean().meta({ example: false }),
    seconds: z.number().positive().max(3600).optional().meta({
      description: 'With `"enabled":false`: time after which prediction is on again. Default: no end',
    }),
  })
  .meta({ id: 'PredictorRequest' });

const PredictionState = z.enum(['active', 'not_needed', 'off']).meta({
  description: 'not_needed: every expert has a slot; off: nothing names experts',
});

export const PredictorAnswer = z
  .object({
    enabled: z.boolean().meta({ description: 'False while it is switched off' }),
    function: z.string().nullable().meta({ description: 'What names experts; null without a predictor' }),
    state: PredictionState,
    route_ahead: PredictionState.meta({
      description: 'Routers of later layers, which name experts while a layer runs',
    }),
    passes: z
      .object({
        compute_seconds: z.number(),
        stall_seconds: z.number().meta({ description: 'Waiting for experts' }),
        most_speedup: z
          .number()
          .meta({ description: 'How many times as fast foreseen loads could make them' }),
      })
      .nullable()
      .meta({ description: 'All passes since the engine started; null before the first' }),
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

/** As `x-request-id` has it. */
export const RequestPath = z.object({ id: z.string().regex(/^[\w.:-]{1,128}$/) });

export const CancelAnswer = z
  .object({ id: z.string(), status: z.literal('cancelled') })
  .meta({ id: 'CancelledRequest' });

/** Data of an event of `/admin/experts/events`. */
export const ExpertsEvent = z
  .object({
    layers: z
      .array(z.string())
      .optional()
      .meta({ description: 'Names of the MoE layers, in the first event' }),
    experts: z.array(z.tuple([z.int(), z.int(), z.enum(RESIDENCY_STATES), z.int()])).meta({
      description:
        'Layer by number, index, state and uses of each expert that changed; in the first event all experts',
    }),
    memory: BudgetAnswer.shape.device,
    peers: BudgetAnswer.shape.peers,
    requests: z
      .array(
        z.object({
          id: z.string().meta({ description: 'The `x-request-id` of its answer' }),
          kind: z.string().meta({ example: 'complete' }),
          key: z.string().nullable().meta({ description: 'Name of the key; null without keys' }),
          started_ms: z.int().meta({ description: 'Milliseconds since 1970' }),
          most_tokens: z.int().meta({
            description: 'Tokens that it may take: an estimate of its input, and its longest answer',
          }),
          tokens: z
            .int()
            .nullable()
            .meta({ description: 'Generated so far; null where the answer is not streamed' }),
        }),
      )
      .meta({ description: 'Requests of this process whose clients wait: the 100 oldest' }),
    budget_changes: z
      .array(
        z.object({
          time_ms: z.int(),
          from_bytes: z.int(),
          to_bytes: z.int(),
          by: z.enum(['page', 'api', ...KEEPERS.options]),
          key: z.string().nullable(),
        }),
      )
      .optional()
      .meta({ description: 'The last 50 changes of the budget, oldest first, where there is a new one' }),
    totals: z
      .object({
        passes: z.number(),
        generated_tokens: z.number(),
        moved_bytes: z.number(),
        resident: z.number(),
        prefetched: z.number(),
        late: z.number(),
        on_demand: z.number(),
        peer: z.number(),
        cpu: z.number(),
        active_sequences: z.number(),
        waiting_inputs: z.number(),
      })
      .meta({ description: 'Counters since the engine started, and what runs and waits now' }),
  })
  .meta({ id: 'ExpertsEvent' });
