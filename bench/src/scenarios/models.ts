/** Models to measure: the bundled one, and Switch-base shapes with random weights. */
import type { ExpertDtype } from '../../../dist/native/addon-types.js';

export interface BenchModel {
  name: string;
  weights: 'trained' | 'random';
  /** Element type of the packed experts. */
  dtype: ExpertDtype;
  shape: SwitchShape;
  /** Most tokens of one pass. It sizes the workspace, and longer inputs are left out. */
  maxBatchTokens: number;
}

export interface SwitchShape {
  dModel: number;
  dFf: number;
  heads: number;
  /** Columns of a head. */
  dKv: number;
  /** Layers of each stack; every second one is sparse. */
  layers: number;
  experts: number;
  vocab: number;
}

const SWITCH_BASE = { dModel: 768, dFf: 3072, heads: 12, dKv: 64, layers: 12, vocab: 8000 };

function switchBase(experts: number, dtype: ExpertDtype, layers = SWITCH_BASE.layers): BenchModel {
  const depth = layers === SWITCH_BASE.layers ? '' : `-${layers}-layers`;
  return {
    name: `switch-base-${experts}${depth}-${dtype}`,
    weights: 'random',
    dtype,
    shape: { ...SWITCH_BASE, experts, layers },
    maxBatchTokens: 2048,
  };
}

export const SWITCH_MINI: BenchModel = {
  name: 'switch-mini',
  weights: 'trained',
  dtype: 'bf16',
  shape: { dModel: 128, dFf: 256, heads: 8, dKv: 16, layers: 4, experts: 64, vocab: 8000 },
  maxBatchTokens: 2048,
};

/** On a CPU the model of 256 experts has half the layers, because its bf16 checkpoint would be 29 GB. */
export const MODELS: readonly BenchModel[] = [
  SWITCH_MINI,
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

/** MoE layers of both stacks. */
export function moeLayers({ layers }: SwitchShape): number {
  return 2 * Math.floor(layers / 2);
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

/** Most disk that making a random model takes: the checkpoint (bf16, or f32 for an f32 pack) and its pack. */
export function diskNeed({ weights, dtype, shape }: BenchModel): { checkpoint: number; pack: number } {
  const { all } = parametersOf(shape);
  const bytes = { f32: 4, bf16: 2, int8: 1, int4: 0.625 }[dtype as string] ?? 4;
  if (weights === 'trained') return { checkpoint: 0, pack: all * bytes };
  return { checkpoint: all * (dtype === 'f32' ? 4 : 2), pack: all * Math.max(bytes, 0.625) * 1.02 };
}
