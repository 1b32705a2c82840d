/** sida-predictor.json describes a directory of trained hash functions. */
import { z } from 'zod';
import { SidaError } from '../../errors.js';
import { readJsonFile } from '../../files/json-file.js';
import { NETWORK_NAMES, type NetworkName } from '../../protocol/predictor-messages.js';

export const MANIFEST = 'sida-predictor.json';

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
  training: z.array(z.object({ stack, steps: z.number(), epochs: z.number(), bestStep: z.number() })),
  /** All settings that decide the outcome. A run with equal settings is the same run. */
  run: z.record(z.string(), z.unknown()),
});
export type NetworkEntry = z.infer<typeof networkSchema>;

const manifestSchema = z.object({
  format: z.literal('sida-predictor'),
  version: z.literal(2),
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

/** Throws cannot_run if the directory holds no finished predictor, and checkpoint_invalid if its file is damaged. */
export async function readPredictorManifest(directory: string): Promise<PredictorManifest> {
  const manifest = findManifest(directory);
  if (manifest !== undefined) return manifest;
  throw new SidaError({
    code: 'cannot_run',
    message: `${directory} is no predictor: it has no ${MANIFEST}; \`sida train\` makes one`,
  });
}

/** Undefined if the directory holds no finished predictor. */
export function findManifest(directory: string): PredictorManifest | undefined {
  return readJsonFile(directory, MANIFEST, manifestSchema, {
    code: 'checkpoint_invalid',
    hint: 'train the predictor again',
  });
}
