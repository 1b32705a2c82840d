/** Thread entry: opens its predictor, and fills the tables of batches until the process ends. */

import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { openTables } from '../forecast/pass-forecast.js';
import { loadAddon } from '../native/addon.js';
import { profiled, recordThread } from '../profile/thread-events.js';
import { BuilderStats } from '../protocol/builder-stats.js';
import type {
  FromHashBuilder,
  HashBuilderThreadData,
  ToHashBuilder,
} from '../protocol/predictor-messages.js';
import { WakeUp } from '../protocol/wake-up.js';
import { routingShape } from './hash-function.js';
import { openPredictor } from './predictor-directory.js';
import { TableBuilder } from './table-builder.js';

const data = workerData as HashBuilderThreadData;
const port = parentPort!;
const emit = (message: FromHashBuilder): void => port.postMessage(message);
const stats = new BuilderStats(data.stats);

async function open(): Promise<TableBuilder | null> {
  const addon = loadAddon();
  recordThread(addon.profile, 'hash building');
  const { directory, kind } = data.predictor;
  const { model, weights, pack, device, threads } = data;
  try {
    const embedding = () => new addon.TokenEmbedding({ pack });
    const opened = await openPredictor(directory, {
      model,
      weights,
      addon,
      embedding,
      device,
      threads,
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

/** Never returns; blocks the thread. */
function run(builder: TableBuilder): never {
  const [work, arrivals] = [new WakeUp(data.work), new WakeUp(data.arrivals)];
  for (;;) {
    const seen = work.signals;
    const message = receiveMessageOnPort(port)?.message as ToHashBuilder | undefined;
    if (message === undefined) {
      work.wait(seen, Number.POSITIVE_INFINITY);
      continue;
    }
    const { batch, tables } = message;
    profiled('build table', () => builder.fill(batch, [...openTables(tables)]), { batch: batch.id });
    arrivals.signal();
  }
}

const builder = await open();
if (builder !== null) run(builder);
