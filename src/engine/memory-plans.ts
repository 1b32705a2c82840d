/** Plans the memory of models in a process of its own, which ends when it has answered. */

import { fork } from 'node:child_process';
import type { EngineConfig } from '../config/engine-config.js';
import { SidaError } from '../errors.js';
import type { MemoryPlan } from '../native/addon-types.js';
import { withoutSecrets } from './engine-environment.js';
import type { FromPlanHost } from './plan-host.js';

/** One plan for each configuration, in order. Rejects with SidaError when a model cannot be planned. */
export function memoryPlans(configs: readonly EngineConfig[]): Promise<MemoryPlan[]> {
  return new Promise((resolve, reject) => {
    const child = fork(new URL('./plan-host.js', import.meta.url), [JSON.stringify(configs)], {
      serialization: 'advanced',
      execArgv: [],
      env: withoutSecrets(process.env),
      stdio: ['ignore', 2, 2, 'ipc'],
    });
    child.once('message', (message: FromPlanHost) => {
      if ('plans' in message) resolve(message.plans);
      else reject(new SidaError(message.error));
    });
    child.once('error', reject);
    // Of several calls, the first one counts.
    child.once('exit', (code, signal) => {
      const message = `The process that plans the memory of the models ended (${signal ?? `code ${code}`})`;
      reject(new SidaError({ code: 'internal', message }));
    });
  });
}
