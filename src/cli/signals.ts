/** Handles SIGTERM and SIGINT: the first signal shuts down in order, the second ends the process at once. */
import { constants } from 'node:os';

type Signal = 'SIGTERM' | 'SIGINT';

/** Delay before a forced exit, which is enough to notify the engine. */
const HURRY_MS = 250;

export interface Signals {
  first: Promise<Signal>;
  /** 0, or the code of a second signal: work that was left is not an orderly end, however soon the process is done. */
  readonly exitCode: number;
  dispose(): void;
}

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
