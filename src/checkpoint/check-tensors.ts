import { setImmediate as yieldToEvents } from 'node:timers/promises';
import { loadAddon } from '../native/addon.js';

/** Experts per native call. Signals are handled between two calls. */
const EXPERTS_A_CALL = 16;

/** Reads all weights of a pack. Throws pack_invalid, which names the first weight that is NaN or infinite. */
export async function checkTensors(pack: string): Promise<void> {
  const { checkFinite } = loadAddon();
  for (let begin = 0, total = 1; begin < total; begin += EXPERTS_A_CALL) {
    total = checkFinite(pack, begin, begin + EXPERTS_A_CALL);
    await yieldToEvents();
  }
}
