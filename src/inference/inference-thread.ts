/** Thread entry: opens the native engine and runs the inference loop until a `close` message arrives. */

import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { SidaError } from '../errors.js';
import { loadAddon } from '../native/addon.js';
import type { Engine } from '../native/addon-types.js';
import { openStepTables } from '../predictor/open-step-tables.js';
import { profiled, recordThread } from '../profile/thread-events.js';
import { QueueConsumer } from '../protocol/batch-queue.js';
import { BuilderStats } from '../protocol/builder-stats.js';
import type {
  FromInference,
  InferenceThreadData,
  QueuedBatch,
  ToInference,
} from '../protocol/inference-messages.js';
import { SharedFlag } from '../protocol/shared-flag.js';
import { StepBacklog } from '../protocol/step-backlog.js';
import { InferenceLoop } from '../scheduler/loop.js';
import { answerControl } from './engine-control.js';
import { batchLimits, openEngine } from './open-engine.js';
import { PassPlanner } from './pass-planner.js';

const data = workerData as InferenceThreadData;
const port = parentPort!;
const backlog = new StepBacklog(data.backlog);
const emit = (message: FromInference): void =>
  profiled('emit', () => {
    if (message.type === 'tokens') backlog.add();
    port.postMessage(message);
  });

function engineOf({ config, pack, peerIdentity }: InferenceThreadData): Engine {
  return openEngine({
    ...batchLimits(config),
    pack,
    memoryBudget: config.memoryBudget,
    hostBudget: config.hostBudget,
    cpuExperts: config.cpuExperts === 'auto',
    linkBandwidth: config.linkBandwidth,
    linkLatency: config.linkLatencyMs / 1000,
    readDepth: config.readDepth,
    policy: config.policy,
    ...(config.expertPeers !== undefined && { expertPeers: config.expertPeers, peerIdentity }),
    ...(config.peerKey !== undefined && { peerKey: config.peerKey }),
  });
}

function open(): { engine: Engine; kvPageTokens: number } | undefined {
  try {
    const addon = loadAddon();
    recordThread(addon.profile, 'inference');
    const engine = engineOf(data);
    const { shape, formats, plan } = engine;
    const { kvPageTokens } = addon;
    emit({ type: 'opened', shape, formats, plan, usage: engine.usage(), kvPageTokens });
    return { engine, kvPageTokens };
  } catch (error) {
    emit({ type: 'failed', error: SidaError.from(error).toBody() });
    return undefined;
  }
}

const opened = open();
if (opened !== undefined) {
  const stepTables = await openStepTables(opened.engine.shape, data);
  const { engine } = opened;
  const { linkBandwidth } = data.config;
  const queue = new QueueConsumer<QueuedBatch>(data.queue);
  const builderStats = new BuilderStats(data.builderStats);
  const resident = new SharedFlag(data.resident);
  // Predicted routing uses no routers.
  const routeAhead = data.config.routing === 'predicted' ? 0 : data.config.routeAhead;
  new InferenceLoop({
    engine,
    pageTokens: opened.kvPageTokens,
    maxBatchTokens: data.config.maxBatchTokens,
    prefixCache: data.config.prefixCache !== 'off',
    routeAhead,
    builderStats,
    planner: new PassPlanner({ ...{ engine, queue, builderStats, linkBandwidth }, resident }),
    control: (request, cached) => answerControl(request, { engine, cached, routeAhead, builderStats }),
    stepTables,
    queue,
    nextControl: () => receiveMessageOnPort(port)?.message as ToInference | undefined,
    emit,
  }).run();
  port.close();
}
