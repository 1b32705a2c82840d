/** What times of a fault are compared with: measures of the same machine in the same run, without the fault. */
import { setTimeout as delay } from 'node:timers/promises';
import { MINI, ServerProcess } from '../support/server-process.js';
import { SMALL } from './cluster.js';
import type { Quiet } from './fault.js';

async function timed(what: string, times: number, run: () => Promise<unknown>): Promise<Quiet> {
  const started = performance.now();
  await run();
  return { what, value: (performance.now() - started) / 1000, times };
}

/** For times that timers of the server decide: a timer of a second, which is late where the machine is busy. */
export async function aTimer(times: number, unit: 's' | 'ms' = 's'): Promise<Quiet> {
  const timer = await timed('a timer of one second', times, () => delay(1_000));
  return unit === 's' ? timer : { ...timer, value: 1000 * timer.value };
}

/** For times in which processes start: a whole start of a server. */
export async function aStart(times: number): Promise<Quiet> {
  let server: ServerProcess | undefined;
  const start = await timed("a server's start", times, async () => {
    server = await ServerProcess.start(['--model', MINI, ...SMALL]);
  });
  await server?.stop();
  return start;
}
