import { setImmediate as yieldToEvents } from 'node:timers/promises';
import { loadAddon } from '../native/addon.js';
import type { VerifiedWeights } from '../native/addon-types.js';

interface VerifyWeightsOptions {
  /** The checkpoint that the pack was made from. */
  model: string;
  pack: string;
  /** Counts the experts compared so far. */
  onProgress?: (progress: { phase: 'verify'; done: number; total: number }) => void;
}

/**
 * Compares every weight of a pack with the checkpoint. Throws pack_invalid when an error exceeds the bound of its
 * element type. The message names the matrix, the error and the bound.
 */
export async function verifyWeights(options: VerifyWeightsOptions): Promise<VerifiedWeights> {
  const { model, pack, onProgress } = options;
  const verifier = new (loadAddon().PackVerifier)({ checkpoint: model, pack });
  try {
    const { tensors, experts: total } = verifier;
    for (let tensor = 0; tensor < tensors; tensor++) {
      verifier.checkDense(tensor, tensor + 1);
      await yieldToEvents();
    }
    for (let expert = 0; expert < total; expert++) {
      verifier.checkExperts(expert, expert + 1);
      onProgress?.({ phase: 'verify', done: expert + 1, total });
      await yieldToEvents();
    }
    return verifier.report;
  } finally {
    verifier.close();
  }
}
