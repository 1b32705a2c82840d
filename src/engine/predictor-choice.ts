/** Finds the predictor that the options select. */

import { join } from 'node:path';
import type { EngineConfig } from '../config/engine-config.js';
import { isPresent } from '../files/model-file.js';
import { MANIFEST } from '../predictor/training/manifest.js';
import type { PredictorChoice } from '../protocol/predictor-messages.js';

/** Subdirectory of a model that may hold its own predictor. */
const OWN = 'predictor';

export function predictorChoice({
  model,
  predictor,
  hashFunction,
}: Pick<EngineConfig, 'model' | 'predictor' | 'hashFunction'>): PredictorChoice | null {
  if (predictor === 'none') return null;
  const own = join(model, OWN);
  if (predictor === 'auto' && !isPresent(own, MANIFEST)) return null;
  const directory = predictor === 'auto' ? own : predictor;
  return { directory, ...(hashFunction !== 'auto' && { kind: hashFunction }) };
}
