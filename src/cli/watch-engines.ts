/** Reports the engines of a server from start to readiness: progress, log, the line that says how to try it. */
import { servedName } from '../checkpoint/served-name.js';
import type { EngineState } from '../engine/engine-handle.js';
import { SidaError } from '../errors.js';
import type { Logger } from '../observability/logger.js';
import { redisAddress } from '../queue/redis/redis-address.js';
import type { ServedModel } from '../server/context.js';
import { listed } from '../text/listed.js';
import { printLines } from '../text/print.js';
import { VERSION } from '../version.js';
import { Progress } from './progress.js';
import { startFields, startLine } from './start-line.js';
import { exampleCurl } from './try-it.js';

/**
 * Calls `onFailure` when the server cannot go on: a model cannot be opened, or no model can be served any more. A model
 * that fails later does not end the server of the others.
 */
export function watchEngines(
  models: readonly ServedModel[],
  url: string,
  logger: Logger,
  onFailure: (error: SidaError) => void,
): void {
  const progress = new Progress();
  let announced = false;
  const onDemand = models[0]!.options.keepAlive !== undefined;
  if (onDemand) printLines(...announcementOnDemand(models, url));
  const isOpen = ({ engine }: ServedModel) => engine.model !== undefined;
  const onPhase = (model: ServedModel, { phase, detail, error }: EngineState, log: Logger) => {
    if (phase === 'restarting') log.warn({ restarts: model.engine.restarts, detail }, 'engine restarts');
    else if (phase !== 'failed') log.info({ phase }, detail);
    if (phase === 'ready') {
      progress.stop();
      // On a terminal, the line at the start says it.
      if (model.options.worker !== 'none' && !process.stderr.isTTY)
        log.info(startFields(model.engine.model!), 'serving');
      if (!announced && models.every(isOpen) && !onDemand) {
        announced = true;
        printLines(...announcement(models, url));
      }
    } else if (phase === 'failed') {
      progress.stop();
      const failure = new SidaError(error ?? { code: 'internal', message: detail });
      const others = models.some(({ engine }) => engine.state.phase !== 'failed');
      if ((isOpen(model) && others) || onDemand)
        log.error({ err: failure }, 'engine failed; the other models are served on');
      else onFailure(failure);
    }
  };
  for (const model of models) {
    const log = model.name === undefined ? logger : logger.child({ model: model.name });
    let before: EngineState['phase'] | undefined;
    model.engine.onState((state) => {
      // Several models start at a time, and one line has room for one of them.
      const shown = models.find((each) => !isOpen(each)) === model;
      if (state.progress !== undefined && shown) progress.show(state.progress);
      if (state.phase === before) return;
      before = state.phase;
      onPhase(model, state, log);
    });
  }
}

function announcementOnDemand(models: readonly ServedModel[], url: string): string[] {
  const names = models.map(({ name, options }) => name ?? servedName(options.model, false));
  return [
    `sida ${VERSION} listens at ${url} and loads a model at its first request: ${listed(names, 'and')}`,
  ];
}

function announcement(models: readonly ServedModel[], url: string): string[] {
  const [first] = models;
  if (models.length === 1) {
    const model = first!.engine.model!;
    return [
      ...about(first!),
      `sida ${VERSION} serves ${model.name} at ${url}${by(first!)}. Try it:`,
      `  ${curl(first!, url)}`,
    ];
  }
  return [
    ...models.flatMap(about),
    `sida ${VERSION} serves ${models.length} models at ${url}${by(first!)}. Try them:`,
    ...models.map((model) => `  ${curl(model, url)}`),
  ];
}

function curl({ name, engine, options: { apiKey, apiKeys } }: ServedModel, url: string): string {
  // The shell of the user has the variable when the server has it from there.
  const shown = process.env.SIDA_API_KEY ? '$SIDA_API_KEY' : 'YOUR_KEY';
  return exampleCurl(engine.model!, url, (apiKey ?? apiKeys) === undefined ? undefined : shown, name);
}

function about({ engine, options: { worker } }: ServedModel): string[] {
  return worker === 'none' ? [] : [startLine(engine.model!)];
}

function by({ options: { redis, worker } }: ServedModel): string {
  return worker === 'none' ? ` by the workers at ${redisAddress(redis!)}` : '';
}
