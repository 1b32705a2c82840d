/** sida-predictor.json describes a directory of trained hash functions. */
import { z } from 'zod';
import { SidaError } from '../../errors.js';
import { readJsonFile } from '../../files/json-file.js';
import { NETWORK_NAMES, type NetworkName } from '../../protocol/predictor-messages.js';

export const MANIFEST = 'sida-predictor.json';

/** Why the training of a network ended. */
const ENDINGS = ['epochs', 'plateau', 'patience', 'minutes'] as const;
export type Ending = (typeof ENDINGS)[number];

/** Wider than the range that fitSharpness() returns. The addon accepts these values. */
const LEAST_SHARPNESS = 1e-4;
const MOST_SHARPNESS = 1e4;

const layerHits = z.object({
  layer: z.string(),
  tokens: z.number(),
  /** Share of the routers' choices among the first predicted experts, for each rank of hitRanks(). */
  hits: z.array(z.number()).min(1),
});
export type LayerHitShares = z.infer<typeof layerHits>;

const sharpness = z.array(z.number().min(LEAST_SHARPNESS).max(MOST_SHARPNESS));

const stack = z.enum(['encoder', 'decoder']);

const networkSchema = z.object({
  /** Sharpness of the layers of each stack's network, as fitSharpness() returns it. */
  sharpness: z.partialRecord(stack, z.object({ alpha: sharpness, chance: sharpness })).exactOptional(),
  options: z.record(z.string(), z.unknown()),
  /** The training of each stack's network. */
  training: z.array(
    z.object({
      stack,
      steps: z.number(),
      epochs: z.number(),
      bestStep: z.number(),
      ending: z.enum(ENDINGS),
    }),
  ),
  /** All settings that decide the outcome. A run with equal settings is the same run. */
  run: z.record(z.string(), z.unknown()),
});
export type NetworkEntry = z.infer<typeof networkSchema>;

const VERSION = 2;

const manifestSchema = z.object({
  format: z.literal('sida-predictor'),
  version: z.literal(VERSION),
  /** `weights` as ModelIdentity says. */
  model: z.object({ name: z.string(), weights: z.string() }),
  /** MoE layers, stack by stack. */
  layers: z.array(z.string()),
  experts: z.number().int().positive(),
  /** Experts that the routers choose for a token. */
  topK: z.number().int().positive().default(1),
  vocab: z.number().int().positive(),
  trainedOn: z.array(
    z.object({
      data: z.string(),
      template: z.string(),
      maxNewTokens: z.number(),
      joins: z.record(z.string(), z.string()).exactOptional(),
      sequences: z.number(),
      tokens: z.number(),
    }),
  ),
  /** The hash function that `auto` takes. */
  default: z.enum([...NETWORK_NAMES, 'token']),
  /** The networks in the folder of each kind. */
  networks: z.partialRecord(z.enum(NETWORK_NAMES), networkSchema),
  /** Hit rates of each hash function, by its name. */
  heldOut: z.record(z.string(), z.array(layerHits)),
});

export type PredictorManifest = z.infer<typeof manifestSchema>;

/** The kinds of network that the directory holds, the default first. */
export function networksOf({ networks }: Pick<PredictorManifest, 'networks'>): NetworkName[] {
  return NETWORK_NAMES.filter((name) => networks[name] !== undefined);
}

export function defaultFunction(manifest: Pick<PredictorManifest, 'networks'>): PredictorManifest['default'] {
  return networksOf(manifest)[0] ?? 'token';
}

/** Throws cannot_run if the directory holds no finished predictor, and checkpoint_invalid if its file is damaged. */
export async function readPredictorManifest(directory: string): Promise<PredictorManifest> {
  const rules = { code: 'checkpoint_invalid', hint: 'train the predictor again' } as const;
  const manifest = readJsonFile(directory, MANIFEST, manifestSchema, rules);
  if (manifest !== undefined) return manifest;
  throw new SidaError({
    code: 'cannot_run',
    message: `${directory} is no predictor: it has no ${MANIFEST}; \`sida train\` makes one`,
  });
}
