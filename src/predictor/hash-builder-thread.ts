/** Thread entry: opens the predictor and runs the builder loop. Blocks its thread; ends with the process. */
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { Batcher, type BatcherOptions, type PendingItem } from '../engine/batcher.js';
import type { PredictorInfo } from '../engine/messages.js';
import type { QueuedBatch } from '../inference/messages.js';
import { loadAddon } from '../native/addon.js';
import type { ModelShape } from '../native/addon-types.js';
import { BuilderLoop } from './builder-loop.js';
import { BuilderStats } from './builder-stats.js';
import { type HashFunctionName, routingShape } from './hash-function.js';
import { type QueueEnd, QueueProducer } from './hash-table-queue.js';
import { openPredictor } from './predictor-directory.js';
import { ResidentFlag } from './resident-flag.js';
import { TableBuilder } from './table-builder.js';

export interface HashBuilderThreadData {
  queue: QueueEnd;
  batching: BatcherOptions;
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

/** To be followed by a ring of the queue's departures: the thread sleeps on them, not on its port. */
export type ToHashBuilder =
  | { type: 'add'; items: PendingItem[] }
  /** Takes out what waits of the job; `cancelled` answers. */
  | { type: 'cancel'; job: number };

export type FromHashBuilder =
  | { type: 'opened'; predictor: PredictorInfo }
  /** No batch after `lastBatch` has items of the job. */
  | { type: 'cancelled'; job: number; lastBatch: number }
  | { type: 'warning'; message: string };

const data = workerData as HashBuilderThreadData;
const port = parentPort!;
const stats = new BuilderStats(data.stats);
const emit = (message: FromHashBuilder): void => port.postMessage(message);

async function open(): Promise<TableBuilder | null> {
  if (data.predictor === null) {
    emit({ type: 'opened', predictor: { name: null, warnings: [] } });
    return null;
  }
  const { directory, kind } = data.predictor;
  const { model, fingerprint, pack } = data;
  const addon = loadAddon();
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
      stats,
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

new BuilderLoop({
  queue: new QueueProducer<QueuedBatch>(data.queue),
  batcher: new Batcher(data.batching),
  builder: await open(),
  stats,
  resident: new ResidentFlag(data.resident),
  nextMessage: () => receiveMessageOnPort(port)?.message as ToHashBuilder | undefined,
  emit,
}).run();
