import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type Maker, missingNetwork, predictorOf } from '../../src/preparation/prepare.js';
import { modelNamed, SWITCH_MINI, SWITCH_WORDS, SWITCH_WORDS_PADDED } from '../../src/scenarios/models.js';
import { MODELS_DIRECTORY } from '../../src/support/paths.js';

describe('the predictor of a trained model', () => {
  const maker: Maker = { work: '/nowhere', threads: 1, seed: 1, onStep: () => {} };
  const prepared = { pack: '/nowhere/pack', fingerprint: 'f', weights: 'w' };

  it('is the bundled one, of switch-words for its padded copy too', async () => {
    for (const model of [SWITCH_MINI, SWITCH_WORDS, SWITCH_WORDS_PADDED]) {
      const folder = model === SWITCH_MINI ? 'switch-mini' : 'switch-words';
      const found = await predictorOf(model, prepared, ['a trace'], 0, maker);
      expect(found).toBe(join(MODELS_DIRECTORY, folder, 'predictor'));
    }
  });

  it('is missed by each system that needs it, and by no other', async () => {
    const without = { ...SWITCH_MINI, folder: 'nowhere' };
    for (const system of ['lstm', 'token', 'predicted', 'paper', 'shuffled'] as const) {
      expect(await missingNetwork(without, system), system).toBe('nowhere has no predictor');
      expect(await missingNetwork(modelNamed('switch-base-8-f32'), system), system).toBeUndefined();
    }
    for (const system of ['resident', 'lru', 'replay', 'static-hot'] as const) {
      expect(await missingNetwork(without, system), system).toBeUndefined();
    }
    expect(await missingNetwork(SWITCH_MINI, 'predicted')).toBeUndefined();
  });
});
