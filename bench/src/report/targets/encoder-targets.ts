/** P3 and P4: the encoder of Switch-base-64 beside Hugging Face transformers, from bench/results/encoder-peers.json. */
import { rangeText } from '../compared-rows.js';
import { DASH, dataTitle, NOT_MEASURED, times } from '../format.js';
import { type Recorded, recorded } from './recorded.js';
import { judged, type TargetRow } from './target-row.js';

type Lengths = 'sst2' | 'multirc';

export interface EncoderPeers {
  isa: string;
  comparisons: (Omit<Recorded, 'isa'> & {
    /** Of our experts and activations, f32 where nothing is said, and of all numbers of theirs. */
    dtype: string;
    activations?: string;
    peerDtype: string;
    lengths: Lengths;
    rounds: number;
    /** Of inputs of similar length: their time over ours. */
    classes: { ratio: number }[];
  })[];
}

interface Limit {
  lengths: Lengths;
  peerDtype: string;
  /** Whether ours rounds activations to the type of the weights, as theirs does. */
  rounded: boolean;
  least: readonly (readonly [dtype: string, ratio: number])[];
}

/** Theirs in the type that is the fastest there. */
const WITHOUT_AMX: readonly Limit[] = [
  { lengths: 'sst2', peerDtype: 'float32', rounded: false, least: [['f32', 1.4], ['bf16', 2.5], ['int8', 4.5]] }, // biome-ignore format: one line
  { lengths: 'multirc', peerDtype: 'float32', rounded: false, least: [['f32', 1.3], ['int8', 2.5]] }, // biome-ignore format: one line
];
const WITH_AMX: readonly Limit[] = [
  { lengths: 'sst2', peerDtype: 'bfloat16', rounded: true, least: [['bf16', 2], ['int8', 3]] }, // biome-ignore format: one line
  { lengths: 'multirc', peerDtype: 'bfloat16', rounded: true, least: [['bf16', 1.5], ['int8', 2]] }, // biome-ignore format: one line
];
const TARGETS: Record<Lengths, string> = { sst2: 'P3', multirc: 'P4' };
const TOKENS: Record<Lengths, string> = { sst2: '8 to 64', multirc: '200 to 500' };

export function encoderTargets(found: EncoderPeers | undefined, amx: boolean): TargetRow[] {
  return (amx ? WITH_AMX : WITHOUT_AMX).flatMap(({ lengths, peerDtype, rounded, least }) =>
    least.map(([dtype, ratio]): TargetRow => {
      const activations = rounded ? dtype : 'f32';
      const own = found?.comparisons.find(
        (one) =>
          one.dtype === dtype &&
          (one.activations ?? 'f32') === activations &&
          one.peerDtype === peerDtype &&
          one.lengths === lengths,
      );
      const types = rounded ? `${dtype} × ${activations}` : dtype;
      const texts = `${dataTitle(lengths)} of ${TOKENS[lengths]} tokens`;
      const ratios = own?.classes.map((one) => one.ratio) ?? [];
      return {
        target: TARGETS[lengths],
        what: `resident encoder of Switch-base-64, ${types}, ${texts}: time of transformers in ${peerDtype} over ours`,
        limit: `≥ ${ratio.toFixed(1)}×`,
        figure: rangeText(ratios, times),
        verdict: ratios.length === 0 ? NOT_MEASURED : judged(ratios, (value) => value >= ratio),
        inputs: own === undefined ? DASH : `${own.classes.length} lengths, ${own.rounds} rounds`,
        control: DASH,
        command: recorded(
          `node bench/scripts/transformers/encoder-peers.mjs --dtypes ${rounded ? `${dtype}:${activations}` : dtype} --lengths ${lengths}`,
          own === undefined ? [] : [{ ...own, isa: found!.isa }],
        ),
      };
    }),
  );
}
