/** Sizes models that share a budget, in a process of its own, which ends when it has answered. */

import { fork } from 'node:child_process';
import { SidaError } from '../errors.js';
import type { Sizes } from '../inference/sizes.js';
import { withoutSecrets } from './engine-environment.js';
import type { FromPlanHost, PlanRequest } from './plan-host.js';

/** The sizes of each configuration, in order. Rejects with SidaError when a model cannot be planned. */
export function sharedSizes(request: PlanRequest): Promise<Sizes[]> {
  return new Promise((resolve, reject) => {
    const child = fork(new URL('./plan-host.js', import.meta.url), [JSON.stringify(request)], {
      serialization: 'advanced',
      execArgv: [],
      env: withoutSecrets(process.env),
      stdio: ['ignore', 2, 2, 'ipc'],
    });
    let answer: FromPlanHost | undefined;
    child.once('message', (message: FromPlanHost) => {
      answer = message;
    });
    child.once('error', reject);
    // An engine that begins earlier would measure a GPU that still has this child's context.
    child.once('close', (code, signal) => {
      if (answer !== undefined && 'sizes' in answer) return resolve(answer.sizes);
      if (answer !== undefined) return reject(new SidaError(answer.error));
      const message = `The process that plans the memory of the models ended (${signal ?? `code ${code}`})`;
      reject(new SidaError({ code: 'internal', message }));
    });
  });
}
