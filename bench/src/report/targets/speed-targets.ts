/** P1 to P4, P14, P18, P19, P24 and P26: the targets whose figures depend on the processor. */
import { type EncoderPeers, encoderTargets } from './encoder-targets.js';
import { type Kernels, kernelTargets } from './kernel-targets.js';
import { type LlamaLimited, llamaTargets } from './llama-targets.js';
import { type RestOverhead, restTargets, type Streams, streamTargets } from './rest-targets.js';
import { type Start, startTarget } from './start-target.js';
import type { TargetRow } from './target-row.js';

/** Of bench/results, each of the processor that its `isa` names. */
export interface SpeedResults {
  kernels?: Kernels | undefined;
  encoderPeers?: EncoderPeers | undefined;
  rest?: RestOverhead | undefined;
  streams?: Streams | undefined;
  /** Of a pack of a published shape, whose steps take as long as those of models that people run. */
  streamsOfPack?: Streams | undefined;
  start?: Start | undefined;
  /** Of every file that was measured. */
  llamaLimited?: readonly LlamaLimited[] | undefined;
}

export function speedTargets(results: SpeedResults, amx: boolean): TargetRow[] {
  const own = <T extends { isa: string }>(result: T | undefined) =>
    result !== undefined && result.isa.includes('amx') === amx ? result : undefined;
  return [
    ...kernelTargets(own(results.kernels), amx),
    ...encoderTargets(own(results.encoderPeers), amx),
    ...restTargets(own(results.rest)),
    ...llamaTargets(
      (results.llamaLimited ?? []).flatMap((result) => own(result) ?? []),
      amx,
    ),
    ...streamTargets(own(results.streams), 'olmoe-mini'),
    ...streamTargets(own(results.streamsOfPack), 'the shape of OLMoE-7B', ' --pack DIR --activations int8'),
    startTarget(own(results.start)),
  ];
}
