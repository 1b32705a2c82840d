/** Starts the inference thread of an engine, and its hash-building thread where there is a predictor. */
import type { SizedConfig } from '../config/engine-config.js';
import { createQueue, QueueGauge, QueueProducer } from '../protocol/batch-queue.js';
import { BuilderStats } from '../protocol/builder-stats.js';
import type { PromptBatch, QueuedBatch } from '../protocol/inference-messages.js';
import type { ChosenPredictor, PredictorChoice } from '../protocol/predictor-messages.js';
import { SharedFlag } from '../protocol/shared-flag.js';
import { HashBuilderLink } from './hash-builder-link.js';
import { InferenceLink, type OpenedEngine } from './inference-link.js';

/** Threads of the predictor. */
const MOST_THREADS = 4;

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
  /** Null without a predictor. */
  hashBuilder: HashBuilderLink | null;
  /** Resolves with the predictor that was opened, or with the reasons why there is none. */
  choosing: Promise<ChosenPredictor>;
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
  const builderStats = new BuilderStats();
  const resident = new SharedFlag().buffer;
  const { arrivals } = queue.consumer;
  const inference = new InferenceLink({
    ...{ config, pack, weights, peerIdentity, predictor, resident },
    queue: queue.consumer,
    builderStats: builderStats.buffer,
  });
  inference.worker.on('error', (error) => onError(error as Error, 'inference'));
  const opened = await inference.opened;
  const { shape: model } = opened;
  const hashBuilder =
    predictor &&
    new HashBuilderLink({
      ...{ pack, weights, predictor, resident, arrivals, model },
      device: config.predictorDevice,
      // Where a GPU runs the model, the CPU has cores to spare.
      threads: config.device === 'cpu' ? 1 : Math.min(config.threads, MOST_THREADS),
      stats: builderStats.buffer,
    });
  hashBuilder?.worker.on('error', (error) => onError(error as Error, 'hash-building'));
  const batches = new QueueProducer<QueuedBatch>(queue.producer);
  const handOn = (batch: PromptBatch) => {
    builderStats.add('inputs', batch.requests.length);
    batches.put({ batch, tables: hashBuilder?.attach(batch) ?? null });
  };
  const choosing = hashBuilder?.opened ?? Promise.resolve({ name: null, warnings: [] });
  return { inference, hashBuilder, choosing, queue: new QueueGauge(queue.producer), handOn, opened };
}
