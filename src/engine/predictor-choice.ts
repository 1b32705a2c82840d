/** Which predictor the options ask for. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { PredictorChoice } from '../predictor/hash-builder-thread.js';
import { PREDICTOR_MANIFEST } from '../predictor/predictor-directory.js';
import type { EngineConfig } from './messages.js';

/** A model may carry its predictor in this directory. */
const OWN = 'predictor';

export function predictorChoice({
  model,
  predictor,
  hashFunction,
}: Pick<EngineConfig, 'model' | 'predictor' | 'hashFunction'>): PredictorChoice | null {
  if (predictor === 'none') return null;
  const own = join(model, OWN);
  if (predictor === 'auto' && !existsSync(join(own, PREDICTOR_MANIFEST))) return null;
  const directory = predictor === 'auto' ? own : predictor;
  return { directory, ...(hashFunction !== 'auto' && { kind: hashFunction }) };
}
