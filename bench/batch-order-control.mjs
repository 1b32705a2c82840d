// The hash-building thread with a batcher whose order is told wrong experts: each input's are those of another one that
// waited before. Tables and what moves are right, so what overlap gains beyond this it gains by knowing.
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { Batcher } from '../dist/engine/batcher.js';
import { loadAddon } from '../dist/native/addon.js';
import { BuilderLoop } from '../dist/predictor/builder-loop.js';
import { BuilderStats } from '../dist/predictor/builder-stats.js';
import { routingShape } from '../dist/predictor/hash-function.js';
import { QueueProducer } from '../dist/predictor/hash-table-queue.js';
import { openPredictor } from '../dist/predictor/predictor-directory.js';
import { ResidentFlag } from '../dist/predictor/resident-flag.js';
import { TableBuilder } from '../dist/predictor/table-builder.js';
import { randomOf } from '../dist/predictor/training/random.js';

const { queue, batching, predictor, model, fingerprint, pack, stats: buffer, resident } = workerData;
const addon = loadAddon();
const opened = await openPredictor(predictor.directory, {
  model,
  fingerprint,
  addon,
  embedding: () => new addon.TokenEmbedding({ pack }),
});
const emit = (message) => parentPort.postMessage(message);
emit({ type: 'opened', predictor: { name: opened.function.name, warnings: opened.warnings } });

class MisledBatcher extends Batcher {
  #random = randomOf(1);
  #sets = [];

  name(waiting, tables) {
    super.name(waiting, tables);
    this.#sets.push(waiting.experts);
    waiting.experts = this.#sets[Math.floor(this.#random() * this.#sets.length)];
  }
}

const stats = new BuilderStats(buffer);
new BuilderLoop({
  queue: new QueueProducer(queue),
  batcher: new MisledBatcher(batching),
  builder: new TableBuilder({
    hashFunction: opened.function,
    shape: routingShape(model),
    stats,
    onError: (error) => emit({ type: 'warning', message: error.message }),
  }),
  stats,
  resident: new ResidentFlag(resident),
  nextMessage: () => receiveMessageOnPort(parentPort)?.message,
  emit,
}).run();
