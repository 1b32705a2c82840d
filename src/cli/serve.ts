/** `sida serve`: runs the engine, the queue and the server from start to shutdown. */

import { resolve } from 'node:path';
import { Command } from 'commander';
import type { KeyRing } from '../access/key-ring.js';
import { type OptionName, SERVE_OPTIONS, type ServeOptions } from '../config/options.js';
import { resolveServeOptions } from '../config/resolve.js';
import type { EngineHandle, EngineState } from '../engine/engine-handle.js';
import { SidaError } from '../errors.js';
import { createLogger, type Logger } from '../observability/logger.js';
import type { ModelInfo } from '../protocol/engine-messages.js';
import { redisAddress } from '../queue/redis/redis-client.js';
import type { RunningServer } from '../server/http-server.js';
import { formatBytes } from '../text/bytes.js';
import { printLines, warnLines } from '../text/print.js';
import { VERSION } from '../version.js';
import { composeServer } from './composition.js';
import { endProcess, exitCodeOfBody } from './exit.js';
import { addFlags, givenFlags } from './flags.js';
import { Progress } from './progress.js';
import { checkWritable, ServeProfile } from './serve-profile.js';
import { endOnSignals } from './signals.js';
import { exampleCurl } from './try-it.js';

const OPTIONS = (Object.keys(SERVE_OPTIONS) as OptionName[]).filter((name) => name !== 'metricsPort');

/** Time to send the last refusals to their clients. */
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
        '  SIDA_REDIS=redis://10.0.0.5:6379 sida serve --model switch-mini --no-worker\n' +
        '  sida serve --config sida.json --link-bandwidth 12GB/s\n' +
        '  sida serve --model models/switch-mini --profile profile.json --profile-seconds 10',
    )
    .action(async (values: Record<string, unknown>) => {
      const flags = givenFlags(values.worker === false ? { ...values, worker: 'none' } : values);
      const options = resolveServeOptions({ flags, env: process.env });
      endProcess(await serve(options));
    });
  return addFlags(command, OPTIONS).option('--no-worker', 'the same as --worker none');
}

/** Resolves with the exit code after the server has ended. */
async function serve(options: ServeOptions): Promise<number> {
  const profile = options.profile === undefined ? undefined : resolve(options.profile);
  if (profile !== undefined) checkWritable(profile);
  const logger = createLogger(options.logLevel);
  const parts = composeServer(options, logger);
  const { engine, queue, keys } = parts;
  const server = await parts.listen().catch(async (error: unknown) => {
    await parts.close(0);
    throw error;
  });

  const failure = new Promise<SidaError>((fail) => {
    watchEngine(engine, server, options, logger, fail);
  });
  const signals = endOnSignals(() => void engine.close(0));
  const forgetKeys = followKeys(keys, options, logger);
  const recording = profile === undefined ? undefined : recordProfile(engine, profile, options);
  engine.start();

  const cause = await Promise.race([failure, signals.first, ...(parts.refused ? [parts.refused] : [])]);
  const drainEnd = performance.now() + (cause instanceof SidaError ? 0 : options.drain);
  if (cause instanceof SidaError) {
    warnLines(`sida: ${cause.message}`);
  } else {
    logger.info({ signal: cause, drainMs: options.drain }, 'shutting down');
    if (!(await server.drain(options.drain))) {
      await queue.drain(0);
      await server.drain(FLUSH_MS);
    }
  }
  await recording?.end();
  await parts.close(Math.max(0, drainEnd - performance.now()));
  await server.close();
  forgetKeys();
  signals.dispose();
  return cause instanceof SidaError ? exitCodeOfBody(cause) : signals.exitCode;
}

/** Reloads the key file when it changes and on SIGHUP. An invalid file leaves the keys as they are. */
function followKeys(keys: KeyRing, { apiKeys }: ServeOptions, logger: Logger): () => void {
  if (apiKeys === undefined) return () => undefined;
  const reload = () => {
    try {
      keys.reload();
      logger.info({ keys: keys.size }, 'API keys read again');
    } catch (error) {
      logger.error({ err: error }, 'the API keys stay as they were');
    }
  };
  process.on('SIGHUP', reload);
  const unwatch = keys.watch(reload);
  return () => {
    process.off('SIGHUP', reload);
    unwatch();
  };
}

function recordProfile(
  engine: EngineHandle,
  file: string,
  { profileSeconds: seconds, profileBytes: bytes }: ServeOptions,
): ServeProfile {
  const recording = new ServeProfile(engine, { file, seconds, bytes, tell: printLines });
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
      if (!announced) printLines(...announcement(engine.model!, server.url, options));
      announced = true;
    } else if (state.phase === 'failed') {
      progress.stop();
      onFailure(new SidaError(state.error ?? { code: 'internal', message: state.detail }));
    }
  });
}

function announcement(
  model: ModelInfo,
  url: string,
  { apiKey, apiKeys, redis, worker }: ServeOptions,
): string[] {
  const { slots, budgetBytes } = model.usage;
  const means =
    worker === 'none'
      ? `by the workers at ${redisAddress(redis!)}`
      : `within ${formatBytes(budgetBytes)}: ${slots} slots for ${model.plan.experts} experts, ${predictorOf(model)}`;
  return [
    `sida ${VERSION} serves ${model.name} at ${url} ${means}. Try it:`,
    `  ${exampleCurl(model, url, (apiKey ?? apiKeys) !== undefined)}`,
  ];
}

function predictorOf({ predictor: { name, warnings } }: ModelInfo): string {
  if (name !== null) return `predicted by ${name}`;
  return warnings.length === 0
    ? 'without a predictor'
    : 'WITHOUT the predictor that was asked for (see above)';
}
