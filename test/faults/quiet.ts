/** What times of a fault are compared with: measures of the same machine in the same run, without the fault. */
import { setTimeout as delay } from 'node:timers/promises';
import { MINI, ServerProcess } from '../support/server-process.js';
import { SMALL } from './cluster.js';
import type { Quiet } from './fault.js';

/** For times that timers of the server decide: a timer of a second, which is late where the machine is busy. */
export async function aTimer(times: number, unit: 's' | 'ms' = 's'): Promise<Quiet> {
  const started = performance.now();
  await delay(1_000);
  const ms = performance.now() - started;
  return { what: 'a timer of one second', value: unit === 's' ? ms / 1000 : ms, times };
}

/** For times in which processes start: a whole start of a server. */
export async function aStart(times: number): Promise<Quiet> {
  const started = performance.now();
  const server = await ServerProcess.start(['--model', MINI, ...SMALL]);
  const seconds = (performance.now() - started) / 1000;
  await server.stop();
  return { what: "a server's start", value: seconds, times };
}
