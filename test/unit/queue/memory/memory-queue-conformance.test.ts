import { MemoryQueue } from '../../../../src/queue/memory/memory-queue.js';
import { queueConformance } from '../../../support/queue-conformance.js';
import { ScriptedEngine } from '../scripted-engine.js';

queueConformance('memory queue', async (settings) => {
  const engine = new ScriptedEngine();
  const queue = new MemoryQueue(engine, settings);
  return {
    queue,
    engine,
    close: async () => {
      await queue.drain(0);
    },
  };
});
