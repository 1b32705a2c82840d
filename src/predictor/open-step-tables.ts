/** Opens the predictor of generations, which runs on the inference thread. */
import type { StepForecaster } from '../forecast/step-forecaster.js';
import { loadAddon } from '../native/addon.js';
import type { ModelShape } from '../native/addon-types.js';
import { embedsOnly, lastStack } from '../native/model-shape.js';
import type { InferenceThreadData } from '../protocol/inference-messages.js';
import { warnLines } from '../text/print.js';
import { routingShape } from './hash-function.js';
import { StepTables } from './step-tables.js';

/**
 * Returns null for a model that generates nothing, and if there is none or it cannot be opened: experts are then
 * fetched on demand. The hash-building thread reports the reason.
 */
export async function openStepTables(
  shape: ModelShape,
  { predictor, weights, pack }: Pick<InferenceThreadData, 'predictor' | 'weights' | 'pack'>,
): Promise<StepForecaster | null> {
  if (predictor === null || embedsOnly(shape)) return null;
  try {
    // Without a predictor the thread starts sooner and smaller: the module brings the schemas of its files.
    const { openPredictor } = await import('./predictor-directory.js');
    const addon = loadAddon();
    const embedding = () => new addon.TokenEmbedding({ pack });
    const { directory, kind } = predictor;
    const options = { model: shape, weights, addon, embedding, ...(kind && { kind }) };
    const opened = await openPredictor(directory, { ...options, stacks: [lastStack(shape)] });
    const stepper = opened.function.stepper();
    return stepper && new StepTables({ stepper, shape: routingShape(shape), onError: warnOnce() });
  } catch {
    return null;
  }
}

function warnOnce(): (error: unknown) => void {
  let told = false;
  return (error) => {
    if (!told) warnLines(`The predictor of generations failed: ${(error as Error).message}`);
    told = true;
  };
}
