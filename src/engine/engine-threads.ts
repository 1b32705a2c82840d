/** Starts the inference and the hash-building thread of an engine. */
import type { SizedConfig } from '../config/engine-config.js';
import { createQueue, QueueGauge, QueueProducer } from '../protocol/batch-queue.js';
import { BuilderStats } from '../protocol/builder-stats.js';
import type { PromptBatch, QueuedBatch } from '../protocol/inference-messages.js';
import type { PredictorChoice } from '../protocol/predictor-messages.js';
import { SharedFlag } from '../protocol/shared-flag.js';
import { HashBuilderLink } from './hash-builder-link.js';
import { InferenceLink, type OpenedEngine } from './inference-link.js';

interface EngineThreadsOptions {
  config: SizedConfig;
  /** Packed model directory. */
  pack: string;
  /** Identity of the model's weights. */
  weights: string;
  peerIdentity: string;
  predictor: PredictorChoice | null;
  /** A thread has died. */
  onError: (error: Error, thread: string) => void;
}

export interface EngineThreads {
  inference: InferenceLink;
  hashBuilder: HashBuilderLink;
  /** The queue of the inference thread, as the main thread sees it. */
  queue: QueueGauge;
  /** Puts the batch and its tables into the queue. */
  handOn: (batch: PromptBatch) => void;
  opened: OpenedEngine;
}

/** Resolves once the model is open; the predictor may still be opening. Rejects if the model cannot be opened. */
export async function startThreads(options: EngineThreadsOptions): Promise<EngineThreads> {
  const { config, pack, weights, peerIdentity, predictor, onError } = options;
  // A batch leaves the queue when it starts, before its pass is planned. The extra entry makes up for it.
  const queue = createQueue(config.queuedBatches + 1);
  const builderStats = new BuilderStats().buffer;
  const shared = {
    ...{ pack, weights, predictor },
    resident: new SharedFlag().buffer,
  };
  const { arrivals } = queue.consumer;
  const inference = new InferenceLink({
    ...shared,
    config,
    peerIdentity,
    queue: queue.consumer,
    builderStats,
  });
  inference.worker.on('error', (error) => onError(error as Error, 'inference'));
  const opened = await inference.opened;
  const { shape: model } = opened;
  const hashBuilder = new HashBuilderLink({ ...shared, arrivals, model, stats: builderStats });
  hashBuilder.worker.on('error', (error) => onError(error as Error, 'hash-building'));
  const batches = new QueueProducer<QueuedBatch>(queue.producer);
  const handOn = (batch: PromptBatch) => batches.put({ batch, tables: hashBuilder.attach(batch) });
  return { inference, hashBuilder, queue: new QueueGauge(queue.producer), handOn, opened };
}
