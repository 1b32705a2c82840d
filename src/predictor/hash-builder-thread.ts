/** Thread entry: hands every batch on with its tables, and fills these while the batch waits. Blocks while the queue is full. */
import { parentPort, workerData } from 'node:worker_threads';
import type { EncodeBatch, QueuedBatch } from '../inference/messages.js';
import { loadAddon } from '../native/addon.js';
import { BuilderStats } from './builder-stats.js';
import { Doorbell } from './doorbell.js';
import type { RoutingShape } from './hash-function.js';
import { type QueueEnd, QueueProducer } from './hash-table-queue.js';
import { openPredictor, type PredictorChoice } from './predictor-choice.js';
import { ResidentFlag } from './resident-flag.js';
import { type BatchInput, type PendingTables, TableBuilder } from './table-builder.js';

export interface HashBuilderThreadData {
  queue: QueueEnd;
  /** What predicts; null: nobody. */
  predictor: PredictorChoice | null;
  shape: RoutingShape;
  decoderStartToken: number;
  /** Packed model directory: its token embedding is the predictor's input. */
  pack: string;
  /** BuilderStats and ResidentFlag. */
  stats: SharedArrayBuffer;
  resident: SharedArrayBuffer;
  /** Tables are the routing, so none may be left out. */
  always: boolean;
}

export type FromHashBuilder =
  /** What predicts; null when it could not be opened, and why. */
  | { type: 'opened'; predictor: string | null; warnings: string[] }
  /** The batch is in the queue. */
  | { type: 'accepted'; batch: number }
  | { type: 'warning'; message: string };

const data = workerData as HashBuilderThreadData;
const producer = new QueueProducer<QueuedBatch>(data.queue);
const resident = new ResidentFlag(data.resident);
const arrivals = new Doorbell(data.queue.arrivals);
const emit = (message: FromHashBuilder): void => parentPort!.postMessage(message);

function open(): TableBuilder | null {
  if (data.predictor === null) {
    emit({ type: 'opened', predictor: null, warnings: [] });
    return null;
  }
  try {
    const { hashFunction, sharpness, warnings } = openPredictor(data.predictor, {
      addon: loadAddon(),
      pack: data.pack,
      shape: data.shape,
    });
    emit({ type: 'opened', predictor: hashFunction.name, warnings });
    let told = false;
    const onError = (error: unknown) => {
      if (!told) emit({ type: 'warning', message: `The predictor failed: ${(error as Error).message}` });
      told = true;
    };
    return new TableBuilder({
      hashFunction,
      sharpness,
      shape: data.shape,
      stats: new BuilderStats(data.stats),
      always: data.always,
      onError,
    });
  } catch (error) {
    emit({ type: 'opened', predictor: null, warnings: [(error as Error).message] });
    return null;
  }
}

/** The decoder tokens that are known beforehand: those of labels. A generation's are predicted step by step. */
function inputOf({ id, items, tokens, offsets }: EncodeBatch): BatchInput {
  const encoder = { tokens, offsets };
  const labels: number[] = [];
  const labelOffsets = [0];
  const context: number[] = [];
  const contextOffsets = [0];
  items.forEach(({ work }, i) => {
    if (work.kind !== 'score') return;
    for (const input of work.plan.inputs) {
      labels.push(...input.tokens);
      labelOffsets.push(labels.length);
      for (let t = offsets[i]!; t < offsets[i + 1]!; t++) context.push(tokens[t]!);
      contextOffsets.push(context.length);
    }
  });
  if (labels.length === 0) return { id, encoder, decoder: null };
  const decoder = {
    tokens: Int32Array.from(labels),
    offsets: Int32Array.from(labelOffsets),
    contextTokens: Int32Array.from(context),
    contextOffsets: Int32Array.from(contextOffsets),
  };
  return { id, encoder, decoder };
}

const builder = open();

parentPort!.on('message', (batch: EncodeBatch) => {
  let input: BatchInput | undefined;
  let tables: PendingTables | null = null;
  if (builder !== null && (data.always || !resident.all)) {
    input = inputOf(batch);
    tables = builder.begin(input);
  }
  const buffers = tables && { encoder: tables.encoder.buffer, decoder: tables.decoder?.buffer ?? null };
  producer.put({ batch, tables: buffers });
  emit({ type: 'accepted', batch: batch.id });
  if (tables === null) return;
  builder!.fill(input!, tables);
  // The inference thread may be waiting for just this table.
  arrivals.ring();
});
