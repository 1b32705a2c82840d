/** `sida serve`: engine, queue and server, from the first progress bar to the last answer. */
import { resolve } from 'node:path';
import { Command } from 'commander';
import { formatBytes } from '../config/bytes.js';
import { type OptionName, SERVE_OPTIONS, type ServeOptions } from '../config/options.js';
import { resolveServeOptions } from '../config/resolve.js';
import { VERSION } from '../config/version.js';
import { weightChoices } from '../config/weight-options.js';
import type { EngineHandle, EngineState } from '../engine/engine-handle.js';
import { EngineProcess } from '../engine/engine-process.js';
import type { EngineConfig, ModelInfo } from '../engine/messages.js';
import { SidaError } from '../errors.js';
import { recordKeptJob } from '../observability/kept-jobs.js';
import { createLogger, type Logger } from '../observability/logger.js';
import { createMetrics, type Metrics } from '../observability/metrics.js';
import { checkWritable, ServeProfile } from '../profile/serve-profile.js';
import { MemoryQueue } from '../queue/memory-queue.js';
import { type RunningServer, startServer } from '../server/http-server.js';
import { exitCodeOfBody } from './exit.js';
import { addFlags, givenFlags } from './flags.js';
import { Progress } from './progress.js';
import { endOnSignals } from './signals.js';
import { exampleCurl } from './try-it.js';

/** Time for the last refusals to reach their clients. */
const FLUSH_MS = 500;

export function serveCommand(): Command {
  const command = new Command('serve')
    .description('Serve a model over HTTP within a memory budget')
    .addHelpText(
      'after',
      '\nExamples:\n  sida serve --model models/switch-mini --memory-budget 50%\n' +
        '  SIDA_API_KEY=… sida serve --model switch-base-128 --memory-budget 2GiB --host 0.0.0.0\n' +
        '  sida serve --model models/switch-mini --predictor predictors/sst2 --memory-budget 25% --lookahead 8\n' +
        '  sida serve --model models/switch-mini --routing predicted --routing-k 3\n' +
        '  sida serve --config sida.json --link-bandwidth 12GB/s\n' +
        '  sida serve --model models/switch-mini --profile profile.json --profile-seconds 10',
    )
    .action(async (values: Record<string, unknown>) => {
      const options = resolveServeOptions({ flags: givenFlags(values), env: process.env });
      process.exitCode = await serve(options);
    });
  return addFlags(command, Object.keys(SERVE_OPTIONS) as OptionName[]);
}

/** Resolves with the exit code when the server has ended. */
async function serve(options: ServeOptions): Promise<number> {
  const profile = options.profile === undefined ? undefined : resolve(options.profile);
  if (profile !== undefined) checkWritable(profile);
  const logger = createLogger(options.logLevel);
  const engine = new EngineProcess(engineConfig(options));
  const queue = new MemoryQueue(engine, {
    bound: options.queueBound,
    deadlineMs: options.deadline,
    keptDeadlineMs: options.jobDeadline,
    retentionMs: options.jobRetention,
    answerBytes: options.jobResults,
    onKeptEnd: (record) => recordKeptJob(record, metrics, logger),
  });
  const metrics: Metrics = createMetrics(engine, queue);
  const server = await listen(() => startServer({ engine, queue, options, logger, metrics }), options);

  const failure = new Promise<SidaError>((fail) => {
    watchEngine(engine, server, options, logger, fail);
  });
  const signals = endOnSignals(() => void engine.close(0));
  const recording = profile === undefined ? undefined : recordProfile(engine, profile, options);
  engine.start();

  const cause = await Promise.race([failure, signals.first]);
  if (cause instanceof SidaError) {
    process.stderr.write(`sida: ${cause.message}\n`);
  } else {
    logger.info({ signal: cause, drainMs: options.drain }, 'shutting down');
    if (!(await server.drain(options.drain))) {
      await queue.drain(0);
      await server.drain(FLUSH_MS);
    }
  }
  await recording?.end();
  await engine.close(0);
  await server.close();
  signals.dispose();
  return cause instanceof SidaError ? exitCodeOfBody(cause) : 0;
}

async function listen(
  start: () => Promise<RunningServer>,
  { host, port }: ServeOptions,
): Promise<RunningServer> {
  try {
    return await start();
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const reason = code === 'EADDRINUSE' ? 'another program listens there; choose another --port' : message;
    throw new SidaError({ code: 'io_error', message: `Cannot listen on ${host}:${port}: ${reason}` });
  }
}

function recordProfile(
  engine: EngineHandle,
  file: string,
  { profileSeconds: seconds, profileBytes: bytes }: ServeOptions,
): ServeProfile {
  const tell = (line: string) => void process.stdout.write(`${line}\n`);
  const recording = new ServeProfile(engine, { file, seconds, bytes, tell });
  engine.onState(({ phase }) => {
    if (phase === 'ready') void recording.start();
  });
  return recording;
}

function watchEngine(
  engine: EngineHandle,
  server: RunningServer,
  options: ServeOptions,
  logger: Logger,
  onFailure: (error: SidaError) => void,
): void {
  const progress = new Progress();
  let announced = false;
  let before: EngineState['phase'] | undefined;
  engine.onState((state) => {
    if (state.progress !== undefined && !announced) progress.show(state.progress);
    if (state.phase === before) return;
    before = state.phase;
    if (state.phase === 'restarting')
      logger.warn({ restarts: engine.restarts, detail: state.detail }, 'engine restarts');
    else if (state.phase !== 'failed') logger.info({ phase: state.phase, detail: state.detail }, 'engine');
    if (state.phase === 'ready') {
      progress.stop();
      if (!announced) process.stdout.write(announcement(engine.model!, server.url, options));
      announced = true;
    } else if (state.phase === 'failed') {
      progress.stop();
      onFailure(new SidaError(state.error ?? { code: 'internal', message: state.detail }));
    }
  });
}

function announcement(model: ModelInfo, url: string, { apiKey }: ServeOptions): string {
  const { slots, budgetBytes } = model.usage;
  return (
    `sida ${VERSION} serves ${model.name} at ${url} within ${formatBytes(budgetBytes)}: ` +
    `${slots} slots for ${model.plan.experts} experts. Try it:\n  ${exampleCurl(model, url, apiKey !== undefined)}\n`
  );
}

function engineConfig(options: ServeOptions): EngineConfig {
  return {
    model: options.model,
    packDir: options.packDir,
    ...weightChoices(options),
    memoryBudget: options.memoryBudget,
    hostBudget: options.hostBudget,
    threads: options.threads,
    policy: options.policy,
    predictor: options.predictor,
    hashFunction: options.hashFunction,
    refine: options.refine === 'graph',
    routing: options.routing,
    routingK: options.routingK,
    activations: options.activations,
    lookahead: options.lookahead,
    maxBatchTokens: options.maxBatchTokens,
    kvTokens: options.kvTokens,
    batchWaitMs: options.batchWait,
    batchOrder: options.batchOrder,
    maxPassedOver: options.maxPassedOver,
    maxInputBytes: options.maxInputBytes,
    linkBandwidth: options.linkBandwidth,
    linkLatencyMs: options.linkLatency,
    readDepth: options.readDepth,
  };
}
