import { setImmediate as yieldToEvents } from 'node:timers/promises';
import { loadAddon } from '../native/addon.js';

/** Experts read in one call: signals are handled between two calls. */
const EXPERTS_A_CALL = 16;

/** Reads all weights of a pack. Throws pack_invalid naming the first that is NaN or infinite. */
export async function checkTensors(pack: string, signal?: AbortSignal): Promise<void> {
  const { checkFinite } = loadAddon();
  for (let begin = 0, total = 1; begin < total; begin += EXPERTS_A_CALL) {
    total = checkFinite(pack, begin, begin + EXPERTS_A_CALL);
    await yieldToEvents();
    signal?.throwIfAborted();
  }
}
