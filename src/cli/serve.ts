/** `sida serve`: runs the engine, the queue and the server from start to shutdown. */

import { resolve } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { Command, Option as Flag } from 'commander';
import { budgetWarning, checkBudget, shareOf, splitBudget, withoutMargin } from '../config/budget.js';
import { engineConfig } from '../config/engine-config.js';
import { MODEL_OPTIONS } from '../config/model-options.js';
import { type OptionName, SERVE_OPTIONS } from '../config/options.js';
import { givenModels, resolveOptions, UsageError } from '../config/resolve.js';
import { resolveServedModels, type ServedModels } from '../config/served-models.js';
import { sharedSizes } from '../engine/shared-sizes.js';
import { SidaError } from '../errors.js';
import { HEAP_FLAGS } from '../heap-flags.js';
import { createLogger } from '../observability/logger.js';
import { SharedBudget } from '../server/shared-budget.js';
import { warnLines } from '../text/print.js';
import { wrapped } from '../text/wrapped.js';
import { endProcess, exitCodeOfBody } from './exit.js';
import { addFlags, givenFlags } from './flags.js';
import { pulledModels } from './hub-models.js';
import { modelsInFolder } from './model-folder.js';
import { checkWritable, recordProfile } from './serve-profile.js';
import { endOnSignals, followKeys } from './signals.js';
import { watchEngines } from './watch-engines.js';

const OPTIONS = (Object.keys(SERVE_OPTIONS) as OptionName[]).filter((name) => name !== 'metricsPort');
const REPEATED: ReadonlySet<OptionName> = new Set(['model', ...MODEL_OPTIONS]);
/** Options that all models share. */
const SHARED_OPTIONS = OPTIONS.filter((name) => !REPEATED.has(name));

/** As long as other tools keep an unused model. */
const FOLDER_KEEP_ALIVE = '5min';

/** Time to send the last refusals to their clients. */
const FLUSH_MS = 500;

export function serveCommand(): Command {
  const command = new Command('serve')
    .argument('[models...]', 'models, or a folder of them; the same as --model')
    .addHelpText('after', `\nExamples:\n${EXAMPLES.map((line) => `  ${line}`).join('\n')}`)
    .action(async (directories: string[], values: Record<string, unknown>) => {
      const flags = { ...givenFlags(values.worker === false ? { ...values, worker: 'none' } : values) };
      if (directories.length > 0) flags.model = [...(flags.model ?? []), ...directories];
      const sources = { flags, env: process.env };
      // A wrong option ends the start before a model is downloaded.
      const { upstream, worker, keepAlive } = resolveOptions(SHARED_OPTIONS, sources);
      if (upstream !== undefined) {
        throw new UsageError(
          'The "--upstream" option belongs to `sida worker`; start `sida serve --no-worker`, too',
        );
      }
      const given = givenModels(sources);
      const models = given.flatMap((path) => modelsInFolder(path) ?? [path]);
      // A folder may hold more than fits at once.
      if (models.length > given.length && keepAlive === undefined) flags.keepAlive = FOLDER_KEEP_ALIVE;
      // Without engines here, these are names of models that workers hold.
      if (models.length > 0 && worker !== 'none') flags.model = await pulledModels(models);
      endProcess(await serve(resolveServedModels(sources)));
    });
  const noWorker = new Flag('--no-worker', 'leave jobs of --redis to `sida worker`').helpGroup('Queue:');
  return addFlags(command, OPTIONS, { repeated: REPEATED, notes: SEVERAL_MODELS }).addOption(noWorker);
}

const EXAMPLES = [
  'sida serve Qwen/Qwen3-30B-A3B-GGUF:Q4_K_M',
  'SIDA_API_KEY=… sida serve model.gguf --memory-budget 2GiB --host 0.0.0.0',
  'sida serve models/switch-words models/olmoe-mini --memory-budget 64MiB',
  'sida serve ~/models --keep-alive 10min',
  'SIDA_REDIS=redis://10.0.0.5:6379 sida serve switch-words --no-worker',
];

const SEVERAL_MODELS = [
  'Several models: repeat --model, or list them in the configuration file or, with commas, in SIDA_MODEL. Each has',
  'an engine process. They share a --memory-budget that is auto or a size. These options may be given for one',
  'model as NAME=VALUE, such as --predictor switch-words=none:',
  ...wrapped([...MODEL_OPTIONS].map((name) => SERVE_OPTIONS[name].flag).join(', '), 110).map(
    (line) => `  ${line}`,
  ),
].join('\n');

/** Resolves with the exit code after the server has ended. */
async function serve(served: ServedModels): Promise<number> {
  for (const flag of HEAP_FLAGS) setFlagsFromString(flag);
  const profiles = served.models.map(({ options: { profile } }) =>
    profile === undefined ? undefined : resolve(profile),
  );
  for (const profile of profiles) if (profile !== undefined) checkWritable(profile);
  const { models, sharedBudget, bytes } = await withSharedBudget(served);
  const { options } = models[0]!;
  const logger = createLogger(options.logLevel, options.logFormat);
  const { keepAlive } = options;
  const loading = keepAlive === undefined ? undefined : { keepAliveMs: keepAlive, bytes, sharedBudget };
  // `--help` and wrong options need none of it.
  const { composeServer } = await import('./composition.js');
  const parts = await composeServer(models, logger, sharedBudget, loading);
  const engines = parts.models.map(({ engine }) => engine);
  const server = await parts.listen().catch(async (error: unknown) => {
    await parts.close(0);
    throw error;
  });

  const failure = new Promise<SidaError>((fail) => {
    watchEngines(parts.models, server.url, logger, fail);
  });
  const signals = endOnSignals(() => {
    for (const engine of engines) void engine.close(0);
  });
  const forgetKeys = followKeys(parts.keys, logger);
  const recordings = engines.flatMap((engine, i) =>
    profiles[i] === undefined ? [] : [recordProfile(engine, profiles[i])],
  );
  for (const engine of engines) {
    if (loading === undefined) engine.start();
    else await engine.unload?.();
  }

  const cause = await Promise.race([failure, signals.first, ...(parts.refused ? [parts.refused] : [])]);
  const drainEnd = performance.now() + (cause instanceof SidaError ? 0 : options.drain);
  if (cause instanceof SidaError) {
    warnLines(`sida: ${cause.message}`);
  } else {
    logger.info({ signal: cause, drainMs: options.drain }, 'shutting down');
    if (!(await server.drain(options.drain))) {
      await Promise.all(parts.models.map(({ queue }) => queue.drain(0)));
      await server.drain(FLUSH_MS);
    }
  }
  await Promise.all(recordings.map((end) => end()));
  await parts.close(Math.max(0, drainEnd - performance.now()));
  await server.close();
  forgetKeys();
  signals.dispose();
  return cause instanceof SidaError ? exitCodeOfBody(cause) : signals.exitCode;
}

interface BudgetedModels extends Pick<ServedModels, 'models'> {
  /** Undefined where each model has a budget of its own. */
  sharedBudget: SharedBudget | undefined;
  /** Of each model, by its name. */
  bytes: Map<string, number>;
}

/** Rejects with budget_too_small when the budget is below the sum of the models' smallest. */
async function withSharedBudget({ models, sharedBudget }: ServedModels): Promise<BudgetedModels> {
  // Without engines here, the budgets are those of the workers.
  if (sharedBudget === undefined || models[0]!.options.worker === 'none')
    return { models, sharedBudget: undefined, bytes: new Map() };
  const configs = models.map(({ options }) => engineConfig(options));
  const alone = models[0]!.options.keepAlive !== undefined;
  const sizes = await sharedSizes({ configs, total: sharedBudget, alone });
  const planned = models.map(({ name }, i) => ({ name: name!, plan: sizes[i]!.plan }));
  const { freeBytes } = sizes[0]!;
  const most = sharedBudget === 'auto' ? withoutMargin(freeBytes) : sharedBudget;
  const budgets = alone
    ? planned.map(({ plan }) => checkBudget(Math.min(plan.resident, most), plan))
    : sharedBudget === 'auto'
      ? shareOf(most, planned)
      : splitBudget(sharedBudget, planned);
  const together = budgets.reduce((sum, each) => sum + each, 0);
  const total = sharedBudget === 'auto' ? Math.min(most, together) : sharedBudget;
  const warning = budgetWarning(total, freeBytes);
  if (warning !== undefined) warnLines(warning);
  const bytes = new Map(models.map(({ name }, i) => [name!, budgets[i]!]));
  return {
    models: models.map(({ name, options }, i) => {
      const { contextTokens: context, kvTokens } = sizes[i]!;
      return { name, options: { ...options, memoryBudget: String(budgets[i]), context, kvTokens } };
    }),
    sharedBudget: new SharedBudget(total, alone ? new Map() : bytes),
    bytes,
  };
}
