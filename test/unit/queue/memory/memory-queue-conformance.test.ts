import { MemoryQueue } from '../../../../src/queue/memory/memory-queue.js';
import type { MakeQueue } from '../../../support/queue-conformance/harness.js';
import { answerBytesConformance } from '../../../support/queue-conformance/retention.js';
import { queueConformance } from '../../../support/queue-conformance.js';
import { ScriptedEngine } from '../scripted-engine.js';

const make: MakeQueue = async (settings) => {
  const engine = new ScriptedEngine();
  const queue = new MemoryQueue(engine, settings);
  return {
    queue,
    engine,
    close: async () => {
      await queue.drain(0);
    },
  };
};

queueConformance('memory queue', make);
answerBytesConformance(make);
