/** Thread entry: hands every batch on with its tables, and fills these while the batch waits. Blocks while the queue is full. */
import { parentPort, workerData } from 'node:worker_threads';
import type { PredictorInfo } from '../engine/messages.js';
import type { EncodeBatch, QueuedBatch } from '../inference/messages.js';
import { loadAddon } from '../native/addon.js';
import type { ModelShape } from '../native/addon-types.js';
import { profiled, recordThread } from '../profile/thread-events.js';
import { BuilderStats } from './builder-stats.js';
import { Doorbell } from './doorbell.js';
import { type HashFunctionName, routingShape } from './hash-function.js';
import { type QueueEnd, QueueProducer } from './hash-table-queue.js';
import { openPredictor } from './predictor-directory.js';
import { ResidentFlag } from './resident-flag.js';
import { type BatchInput, type PendingTables, TableBuilder } from './table-builder.js';

export interface HashBuilderThreadData {
  queue: QueueEnd;
  /** What predicts; null: nobody. */
  predictor: PredictorChoice | null;
  model: ModelShape;
  fingerprint: string;
  /** Packed model directory: its token embedding is the predictor's input. */
  pack: string;
  /** BuilderStats and ResidentFlag. */
  stats: SharedArrayBuffer;
  resident: SharedArrayBuffer;
}

export interface PredictorChoice {
  /** Made by `sida train`, or a trace for `replay`. */
  directory: string;
  /** Undefined: the best that the directory holds. */
  kind?: HashFunctionName;
}

export type FromHashBuilder =
  | { type: 'opened'; predictor: PredictorInfo }
  /** The batch is in the queue. */
  | { type: 'accepted'; batch: number }
  | { type: 'warning'; message: string };

const data = workerData as HashBuilderThreadData;
const producer = new QueueProducer<QueuedBatch>(data.queue);
const resident = new ResidentFlag(data.resident);
const arrivals = new Doorbell(data.queue.arrivals);
const emit = (message: FromHashBuilder): void => parentPort!.postMessage(message);

async function open(): Promise<TableBuilder | null> {
  const addon = loadAddon();
  recordThread(addon.profile, 'hash building');
  if (data.predictor === null) {
    emit({ type: 'opened', predictor: { name: null, warnings: [] } });
    return null;
  }
  const { directory, kind } = data.predictor;
  const { model, fingerprint, pack } = data;
  try {
    const embedding = () => new addon.TokenEmbedding({ pack });
    const opened = await openPredictor(directory, {
      model,
      fingerprint,
      addon,
      embedding,
      ...(kind && { kind }),
    });
    emit({ type: 'opened', predictor: { name: opened.function.name, warnings: opened.warnings } });
    return new TableBuilder({
      hashFunction: opened.function,
      shape: routingShape(model),
      stats: new BuilderStats(data.stats),
      onError: warnOnce(),
    });
  } catch (error) {
    emit({ type: 'opened', predictor: { name: null, warnings: [(error as Error).message] } });
    return null;
  }
}

function warnOnce(): (error: unknown) => void {
  let told = false;
  return (error) => {
    if (!told) emit({ type: 'warning', message: `The predictor failed: ${(error as Error).message}` });
    told = true;
  };
}

/** The decoder tokens that are known beforehand: those of labels. A generation's are predicted step by step. */
function inputOf({ id, routingK, items, tokens, offsets }: EncodeBatch): BatchInput {
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
  if (labels.length === 0) return { id, routingK, encoder, decoder: null };
  const decoder = {
    tokens: Int32Array.from(labels),
    offsets: Int32Array.from(labelOffsets),
    contextTokens: Int32Array.from(context),
    contextOffsets: Int32Array.from(contextOffsets),
  };
  return { id, routingK, encoder, decoder };
}

const builder = await open();

parentPort!.on('message', (batch: EncodeBatch) => {
  let input: BatchInput | undefined;
  let tables: PendingTables | null = null;
  if (builder !== null && (batch.routingK > 0 || !resident.all)) {
    input = inputOf(batch);
    tables = builder.begin(input);
  }
  const buffers = tables && { encoder: tables.encoder.buffer, decoder: tables.decoder?.buffer ?? null };
  producer.put({ batch, tables: buffers });
  emit({ type: 'accepted', batch: batch.id });
  if (tables === null) return;
  const made = tables;
  profiled('build table', () => builder!.fill(input!, made), {
    batch: batch.id,
    tokens: batch.tokens.length,
  });
  // The inference thread may be waiting for just this table.
  arrivals.ring();
});
