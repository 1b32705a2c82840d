/** Finds the models that commands name as `ORG/NAME`. The library of the hub is loaded for such names only. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SidaError } from '../errors.js';
import { type HubName, hubNameOf, writtenName } from '../hub/hub-name.js';
import { Progress } from './progress.js';

/** The path of a model. Throws model_not_found with the command that gets it for a name that is not in the cache. */
export async function localModel(model: string): Promise<string> {
  const name = hubNameOf(model);
  if (name === undefined) return model;
  const path = await cachedPath(name);
  if (path !== undefined) return path;
  const message = `${model}: no such file or directory, and no such model in the cache; get it: sida pull ${writtenName(name)}`;
  throw new SidaError({ code: 'model_not_found', message });
}

/** The paths of models. Downloads those that are not in the cache. */
export async function pulledModels(models: readonly string[]): Promise<string[]> {
  const paths = [];
  for (const model of models) {
    const name = hubNameOf(model);
    paths.push(
      name === undefined
        ? model
        : ((await cachedPath(name)) ?? (await noSuchPath(model, () => pullModel(name)))),
    );
  }
  return paths;
}

/** Runs `body` with a path that suffices to plan: of a name that is not in the cache, its config and headers. */
export async function withModelHead<T>(model: string, body: (path: string) => Promise<T>): Promise<T> {
  const name = hubNameOf(model);
  const path = name === undefined ? model : await cachedPath(name);
  if (path !== undefined) return body(path);
  const directory = mkdtempSync(join(tmpdir(), 'sida-head-'));
  try {
    return await body(await noSuchPath(model, () => modelHead(name!, join(directory, 'model'))));
  } finally {
    rmSync(directory, { recursive: true });
  }
}

/** Says in errors of `body`, which asks the hub for `model`, that it is no path either: it may be a mistyped one. */
async function noSuchPath<T>(model: string, body: () => Promise<T>): Promise<T> {
  try {
    return await body();
  } catch (error) {
    const { code, message, details } = SidaError.from(error);
    const unknown =
      code === 'model_not_found' || code === 'unauthorized' || message.startsWith('Cannot reach');
    if (model.startsWith('hf:') || !unknown) throw error;
    throw new SidaError({
      code,
      message: `${model}: no such file or directory, and as a name of the hub: ${message}`,
      ...(details && { details }),
    });
  }
}

/** Downloads a model with a progress bar, and resolves with its path. */
export async function pullModel(name: HubName): Promise<string> {
  const { pull } = await import('../hub/pull.js');
  const progress = new Progress();
  try {
    return await pull(name, {
      onProgress: (done, total) => progress.show({ phase: 'download', done, total }),
      say: (line) => progress.say(line),
    });
  } finally {
    progress.stop();
  }
}

async function cachedPath(name: HubName): Promise<string | undefined> {
  const { cachedModel } = await import('../hub/cache.js');
  return cachedModel(name)?.path;
}

async function modelHead(name: HubName, directory: string): Promise<string> {
  const { fetchModelHead } = await import('../hub/model-head.js');
  return fetchModelHead(name, directory);
}
