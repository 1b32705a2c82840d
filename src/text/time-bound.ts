/** Runs a function for a limited time on the calling thread, even a regular expression that backtracks for ever. */
import { createContext, Script } from 'node:vm';

const call = new Script('run()');
const context: { run?: () => unknown } = {};
createContext(context);

/** A function that computed for a smaller share of its time than this had too little of the processor. */
const COMPUTED = 0.2;
/** Each try has more time than the one before. */
const TRIES = 8;

/**
 * Returns what `run` returns. Throws an Error with `what` and the time when it is over. On a busy machine, `run` is
 * called again, with more time, when the process did not get the processor. Calls do not nest.
 */
export function withinTime<T>(ms: number, what: string, run: () => T): T {
  for (let tries = 1; ; tries += 1) {
    const limit = ms * tries;
    const before = process.cpuUsage();
    context.run = run;
    try {
      return call.runInContext(context, { timeout: limit }) as T;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw error;
      // Where memory is short, the kernel is busy on the thread's behalf, which is no work of `run`.
      const computedMs = process.cpuUsage(before).user / 1000;
      if (tries === TRIES || computedMs > COMPUTED * limit)
        throw new Error(`${what} took longer than ${limit} ms`);
    } finally {
      delete context.run;
    }
  }
}
