import type { KeyRing } from '../access/key-ring.js';
import type { Logger } from '../observability/logger.js';

/**
 * Reads the keys' file, if there is one, again when it changes and on SIGHUP, until the returned function is called. A
 * file that cannot be used leaves the keys as they are.
 */
export function followKeys(keys: KeyRing | undefined, logger: Logger): () => void {
  if (!keys?.hasFile) return () => undefined;
  const reload = () => {
    try {
      keys.reload();
      logger.info({ keys: keys.size }, 'API keys read again');
    } catch (error) {
      logger.error({ err: error }, 'the API keys stay as they were');
    }
  };
  process.on('SIGHUP', reload);
  const unwatch = keys.watch(reload);
  return () => {
    process.off('SIGHUP', reload);
    unwatch();
  };
}
