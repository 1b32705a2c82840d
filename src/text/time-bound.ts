/** Runs a function for a limited time on the calling thread, even a regular expression that backtracks for ever. */
import { createContext, Script } from 'node:vm';

const call = new Script('run()');
const context: { run?: () => unknown } = {};
createContext(context);

/** Returns what `run` returns. Throws an Error with `what` and the time when it is over. Calls do not nest. */
export function withinTime<T>(ms: number, what: string, run: () => T): T {
  context.run = run;
  try {
    return call.runInContext(context, { timeout: ms }) as T;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_SCRIPT_EXECUTION_TIMEOUT') {
      throw new Error(`${what} took longer than ${ms} ms`);
    }
    throw error;
  } finally {
    delete context.run;
  }
}
