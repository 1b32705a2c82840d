/** `sida worker`: takes jobs from a queue in Redis and runs them in its own engine. */

import { Command } from 'commander';
import type { ServeOptions } from '../config/options.js';
import { resolveOptions, resolveServeOptions, UsageError } from '../config/resolve.js';
import { SidaError } from '../errors.js';
import { createLogger } from '../observability/logger.js';
import { redisAddress } from '../queue/redis/redis-address.js';
import { printLines, warnLines } from '../text/print.js';
import { VERSION } from '../version.js';
import { endProcess, exitCodeOfBody } from './exit.js';
import { addFlags, givenFlags } from './flags.js';
import { pulledModels } from './hub-models.js';
import { Progress } from './progress.js';
import { composeWorker, WORKER_OPTIONS, type WorkerOptions } from './redis-composition.js';
import { endOnSignals, followKeys } from './signals.js';
import { startFields, startLine } from './start-line.js';

export function workerCommand(): Command {
  const command = new Command('worker')
    .addHelpText(
      'after',
      '\nExamples:\n  sida worker --redis redis://10.0.0.5:6379 --model models/switch-words --memory-budget 50%\n' +
        '  SIDA_REDIS=rediss://:secret@queue.example:6379 sida worker --model switch-base-128 --memory-budget 2GiB\n' +
        '  sida worker --redis redis://10.0.0.5:6379 --upstream http://127.0.0.1:8000/v1 --model Qwen/Qwen3-30B-A3B',
    )
    .action(async (values: Record<string, unknown>) => {
      const sources = { flags: givenFlags(values), env: process.env };
      const options = resolveOptions(WORKER_OPTIONS, sources);
      if (options.redis === undefined) {
        throw new UsageError(
          'The "--redis" option is missing (or set SIDA_REDIS): a worker takes its jobs from there; for example redis://127.0.0.1:6379',
        );
      }
      // With --metrics-port the worker is an HTTP server too and needs a server's options.
      const serving = options.metricsPort === undefined ? undefined : resolveServeOptions(sources);
      // The model of an --upstream has its name there.
      if (options.upstream === undefined) options.model = (await pulledModels([options.model]))[0]!;
      endProcess(await work(options, options.redis, serving));
    });
  return addFlags(command, WORKER_OPTIONS);
}

/** Resolves with the exit code after the worker has ended. */
async function work(
  options: WorkerOptions,
  redis: string,
  serving: ServeOptions | undefined,
): Promise<number> {
  const logger = createLogger(options.logLevel, options.logFormat);
  const parts = await composeWorker(options, redis, serving, logger);
  const { engine, url } = parts;
  const progress = new Progress();
  let announced = false;
  const failure = new Promise<SidaError>((fail) => {
    engine.onState((state) => {
      if (state.progress !== undefined && !announced) progress.show(state.progress);
      else logger.info({ phase: state.phase }, state.detail);
      if (state.phase === 'ready' && !announced) {
        progress.stop();
        announced = true;
        const { name, fingerprint } = engine.model!;
        const here = options.upstream === undefined;
        if (here && !process.stderr.isTTY) logger.info(startFields(engine.model!), 'serving');
        const jobs = `jobs for ${name} (${fingerprint.slice(0, 12)}) from ${redisAddress(redis)}`;
        const where = here ? '' : ` in the engine at ${options.upstream}`;
        printLines(
          ...(here ? [startLine(engine.model!)] : []),
          `sida ${VERSION} runs ${jobs}${where}${url === undefined ? '' : `; metrics at ${url}`}`,
        );
      } else if (state.phase === 'failed') {
        progress.stop();
        fail(new SidaError(state.error ?? { code: 'internal', message: state.detail }));
      }
    });
  });
  const signals = endOnSignals(() => void engine.close(0));
  const forgetKeys = followKeys(parts.keys, logger);
  engine.start();

  const cause = await Promise.race([failure, parts.refused, signals.first]);
  if (cause instanceof SidaError) warnLines(`sida: ${cause.message}`);
  else logger.info({ signal: cause, drainMs: options.drain }, 'shutting down');
  parts.refuse();
  await parts.close(cause instanceof SidaError ? 0 : options.drain);
  forgetKeys();
  signals.dispose();
  return cause instanceof SidaError ? exitCodeOfBody(cause) : signals.exitCode;
}
