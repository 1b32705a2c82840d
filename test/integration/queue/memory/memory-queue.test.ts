// The memory queue over a real engine process.
import { randomUUID } from 'node:crypto';
import type { MemoryQueue } from '../../../../src/queue/memory/memory-queue.js';
import { engineConformance } from '../../../support/queue-conformance.js';
import { compiled, startEngine } from '../../../support/real-engine.js';

engineConformance('memory queue over the engine process', async () => {
  const engine = await startEngine();
  const module = await compiled<{ MemoryQueue: typeof MemoryQueue }>('queue/memory/memory-queue.js');
  const queue = new module.MemoryQueue(engine, { bound: 512, deadlineMs: 60_000 });
  return {
    queue,
    run: (request) => engine.run(randomUUID(), request, { signal: new AbortController().signal }),
    kill: () => process.kill(engine.pid!, 'SIGKILL'),
    close: async () => {
      await queue.drain(0);
      await engine.close(0);
    },
  };
});
