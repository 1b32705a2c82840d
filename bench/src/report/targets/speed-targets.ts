/** P1 to P4, P14, P18, P19, P24 and P26: the targets whose figures depend on the processor. */
import { DASH, NOT_MEASURED } from '../format.js';
import { type EncoderPeers, encoderTargets } from './encoder-targets.js';
import { type Kernels, kernelTargets, tileTargets } from './kernel-targets.js';
import { type RestOverhead, restTargets, type Streams, streamTargets } from './rest-targets.js';
import { type Start, startTarget } from './start-target.js';
import type { TargetRow } from './target-row.js';

/** Of bench/results, each of the processor that its `isa` names. */
export interface SpeedResults {
  kernels?: Kernels | undefined;
  /** Two sets of kernels of one processor beside each other. */
  kernelSets?: Kernels | undefined;
  encoderPeers?: EncoderPeers | undefined;
  rest?: RestOverhead | undefined;
  streams?: Streams | undefined;
  start?: Start | undefined;
}

/** What no script measures yet. */
const OPEN: readonly Pick<TargetRow, 'target' | 'what' | 'limit'>[] = [
  {
    target: 'P18',
    what: 'resident decoder of the shape of OLMoE-7B, one stream: tokens a second over those of llama.cpp',
    limit: '≥ 1.5×; prompt ≥ 1.5×, with AMX ≥ 4×',
  },
  {
    target: 'P19',
    what: 'the same within a limit on memory that the kernel enforces, 50, 35 and 20 % of the model',
    limit: '≥ 2.5×, 2.5×, 2.8×',
  },
];

export function speedTargets(results: SpeedResults, amx: boolean): TargetRow[] {
  const own = <T extends { isa: string }>(result: T | undefined) =>
    result !== undefined && result.isa.includes('amx') === amx ? result : undefined;
  return [
    ...(amx ? tileTargets(own(results.kernelSets)) : kernelTargets(own(results.kernels))),
    ...encoderTargets(own(results.encoderPeers), amx),
    ...restTargets(own(results.rest)),
    ...OPEN.map(notMeasured),
    ...streamTargets(own(results.streams)),
    startTarget(own(results.start)),
  ];
}

function notMeasured(open: Pick<TargetRow, 'target' | 'what' | 'limit'>): TargetRow {
  return { ...open, figure: DASH, verdict: NOT_MEASURED, inputs: DASH, control: DASH, command: DASH };
}
