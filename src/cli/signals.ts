/** Handles signals: SIGTERM and SIGINT end the process, SIGHUP reads the API keys again. */
import { constants } from 'node:os';
import type { KeyRing } from '../access/key-ring.js';
import type { Logger } from '../observability/logger.js';

type Signal = 'SIGTERM' | 'SIGINT';

/** Delay before a forced exit, which is enough to notify the engine. */
const HURRY_MS = 250;

export interface Signals {
  first: Promise<Signal>;
  /** 0, or the code of a second signal: work that was left is not an orderly end, however soon the process is done. */
  readonly exitCode: number;
  dispose(): void;
}

/** The first signal shuts down in order, the second ends the process at once. */
export function endOnSignals(onHurry: () => void): Signals {
  let seen = false;
  let exitCode = 0;
  let resolveFirst: (signal: Signal) => void;
  const first = new Promise<Signal>((resolve) => {
    resolveFirst = resolve;
  });
  const onSignal = (signal: Signal) => {
    if (!seen) {
      seen = true;
      resolveFirst(signal);
      return;
    }
    exitCode = 128 + constants.signals[signal];
    onHurry();
    setTimeout(() => process.exit(exitCode), HURRY_MS);
  };
  process.on('SIGTERM', onSignal).on('SIGINT', onSignal);
  return {
    first,
    get exitCode() {
      return exitCode;
    },
    dispose() {
      process.off('SIGTERM', onSignal).off('SIGINT', onSignal);
    },
  };
}

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
