/** Handles SIGTERM and SIGINT: the first signal shuts down in order, the second ends the process at once. */
import { constants } from 'node:os';

type Signal = 'SIGTERM' | 'SIGINT';

/** Delay before a forced exit, which is enough to notify the engine. */
const HURRY_MS = 250;

export interface Signals {
  first: Promise<Signal>;
  dispose(): void;
}

export function endOnSignals(onHurry: () => void): Signals {
  let seen = false;
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
    onHurry();
    setTimeout(() => process.exit(128 + constants.signals[signal]), HURRY_MS);
  };
  process.on('SIGTERM', onSignal).on('SIGINT', onSignal);
  return {
    first,
    dispose() {
      process.off('SIGTERM', onSignal).off('SIGINT', onSignal);
    },
  };
}
