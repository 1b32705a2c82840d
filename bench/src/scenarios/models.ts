/** Models to measure: trained ones, and Switch-base shapes with random weights. */
import { join } from 'node:path';
import type { ExpertDtype } from '../../../dist/native/addon-types.js';
import { MODELS_DIRECTORY } from '../support/paths.js';

/** Most tokens of one pass. It sizes the workspace, and longer inputs are left out. */
export const MAX_BATCH_TOKENS = 2048;

export interface BenchModel {
  name: string;
  weights: 'trained' | 'random';
  /** Of a trained model: the folder below models/ with its checkpoint, tasks and predictor. */
  folder?: string;
  /** Zeros fill the experts up to this size: the same answers, and transfers that cost what real ones do. */
  expertBytes?: string;
  /** Element type of the packed experts. */
  dtype: ExpertDtype;
  shape: SwitchShape;
}

export interface SwitchShape {
  dModel: number;
  dFf: number;
  heads: number;
  /** Columns of a head. */
  dKv: number;
  /** Layers of each stack. */
  layers: number;
  /** One layer in so many is sparse. */
  sparseStep: number;
  experts: number;
  vocab: number;
}

const SWITCH_BASE = { dModel: 768, dFf: 3072, heads: 12, dKv: 64, layers: 12, sparseStep: 2, vocab: 8000 };

function switchBase(experts: number, dtype: ExpertDtype, layers = SWITCH_BASE.layers): BenchModel {
  const depth = layers === SWITCH_BASE.layers ? '' : `-${layers}-layers`;
  return {
    name: `switch-base-${experts}${depth}-${dtype}`,
    weights: 'random',
    dtype,
    shape: { ...SWITCH_BASE, experts, layers },
  };
}

const SWITCH_MINI: BenchModel = {
  name: 'switch-mini',
  weights: 'trained',
  folder: 'switch-mini',
  dtype: 'bf16',
  shape: { dModel: 128, dFf: 256, heads: 8, dKv: 16, layers: 4, sparseStep: 2, experts: 64, vocab: 8000 },
};

/** Its experts hold a sixth of its right answers. */
export const SWITCH_WORDS: BenchModel = {
  name: 'switch-words',
  weights: 'trained',
  folder: 'switch-words',
  dtype: 'bf16',
  shape: { dModel: 128, dFf: 256, heads: 8, dKv: 16, layers: 4, sparseStep: 1, experts: 32, vocab: 8000 },
};

const SWITCH_WORDS_PADDED: BenchModel = {
  ...SWITCH_WORDS,
  name: 'switch-words-padded',
  expertBytes: '2.65MB',
  // The least width of whole panels with experts of that size.
  shape: { ...SWITCH_WORDS.shape, dFf: 5184 },
};

/** On a CPU the model of 256 experts has half the layers, because its bf16 checkpoint would be 29 GB. */
export const MODELS: readonly BenchModel[] = [
  SWITCH_MINI,
  SWITCH_WORDS,
  SWITCH_WORDS_PADDED,
  switchBase(8, 'bf16', 4),
  ...(['f32', 'bf16', 'int8', 'int4'] as const).map((dtype) => switchBase(8, dtype)),
  switchBase(64, 'bf16'),
  switchBase(128, 'bf16'),
  switchBase(128, 'int8'),
  switchBase(256, 'bf16'),
  switchBase(256, 'int4', 6),
];

export function modelNamed(name: string): BenchModel {
  const model = MODELS.find((each) => each.name === name);
  if (model === undefined) throw new Error(`No model ${name}. This is a bug.`);
  return model;
}

/** The bundled checkpoint of a trained model, from which a padded one is made. */
export function checkpointOf({ name, folder }: BenchModel): string {
  if (folder === undefined) throw new Error(`${name} has no bundled checkpoint. This is a bug.`);
  return join(MODELS_DIRECTORY, folder);
}

/** MoE layers of both stacks. */
export function moeLayers({ layers, sparseStep }: SwitchShape): number {
  return 2 * Math.floor(layers / sparseStep);
}

/** Parameters of a Switch Transformer of both stacks, and those of its experts among them. */
export function parametersOf(shape: SwitchShape): { all: number; experts: number } {
  const { dModel, dFf, heads, dKv, layers, vocab } = shape;
  const attention = 4 * dModel * heads * dKv;
  const ffn = 2 * dModel * dFf;
  const sparse = moeLayers(shape);
  const experts = sparse * shape.experts * ffn;
  const norms = dModel * (2 * layers + 3 * layers + 2);
  const dense =
    vocab * dModel +
    layers * attention * 3 +
    (2 * layers - sparse) * ffn +
    sparse * shape.experts * dModel +
    2 * 32 * heads +
    norms;
  return { all: dense + experts, experts };
}

/**
 * Most disk that making a model takes: its checkpoint, unless that is bundled (bf16, or f32 for an f32 pack), and its
 * pack. The zeros of a padded checkpoint are holes, where the disk has them.
 */
export function diskNeed({ weights, dtype, shape, expertBytes }: BenchModel): {
  checkpoint: number;
  pack: number;
} {
  const { all } = parametersOf(shape);
  const bytes = { f32: 4, bf16: 2, int8: 1, int4: 0.625 }[dtype as string] ?? 4;
  if (weights === 'trained') return { checkpoint: expertBytes === undefined ? 0 : all * 2, pack: all * bytes };
  return { checkpoint: all * (dtype === 'f32' ? 4 : 2), pack: all * Math.max(bytes, 0.625) * 1.02 };
}
