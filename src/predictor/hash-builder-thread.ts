/** Thread entry: gives every batch its hash table and hands both on. Blocks while the queue is full. */
import { parentPort, workerData } from 'node:worker_threads';
import type { EncodeBatch, QueuedBatch } from '../inference/messages.js';
import { createUnknownTable } from './hash-table.js';
import { type QueueEnd, QueueProducer } from './hash-table-queue.js';

export interface HashBuilderThreadData {
  queue: QueueEnd;
  /** MoE layers that a table describes: the encoder's. */
  layers: number;
}

/** Sent to the main thread for each batch that is in the queue. */
export interface BatchAccepted {
  type: 'accepted';
  batch: number;
}

const { queue, layers } = workerData as HashBuilderThreadData;
const producer = new QueueProducer<QueuedBatch>(queue);

parentPort!.on('message', (batch: EncodeBatch) => {
  const table = createUnknownTable(batch.id, layers, batch.tokens.length);
  producer.put({ batch, table: table.buffer });
  const accepted: BatchAccepted = { type: 'accepted', batch: batch.id };
  parentPort!.postMessage(accepted);
});
