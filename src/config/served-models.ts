/** Resolves the options of several models, and of a server that has one or several. */
import { servedName } from '../checkpoint/served-name.js';
import { parseBytes } from '../text/bytes.js';
import { listed } from '../text/listed.js';
import type { ServeOptions } from './options.js';
import {
  givenModels,
  resolveOptions,
  resolveServeOptions,
  type Sources,
  UsageError,
  writtenFor,
} from './resolve.js';

export interface ServedModels {
  /** Each with its own options where it has such. The only model of a server has the name that its engine finds. */
  models: { name: string | undefined; options: ServeOptions }[];
  /** Bytes that all models share, or auto. Undefined when each has a budget. */
  sharedBudget: number | 'auto' | undefined;
}

/** Throws UsageError for options that are wrong, also together, and for two models of one name. */
export function resolveServedModels(sources: Sources): ServedModels {
  const directories = givenModels(sources);
  if (directories.length < 2) {
    const options = resolveServeOptions(sources);
    // A request must be able to name a model that is not loaded yet.
    const name =
      options.keepAlive === undefined ? undefined : (options.alias ?? servedName(options.model, false));
    return { models: [{ name, options }], sharedBudget: undefined };
  }
  const elsewhere = resolveOptions(['worker'], sources).worker === 'none';
  const all = directories.map((directory) => servedName(directory, elsewhere));
  checkNames(all, directories);
  const own = all.map((name, i) => {
    const ofModel = {
      ...sources,
      flags: { ...sources.flags, model: directories[i]! },
      names: { all, own: name },
    };
    const options = resolveServeOptions(ofModel);
    return { name, options, budget: writtenFor('memoryBudget', ofModel) };
  });
  const files = own.flatMap(({ options }) => options.profile ?? []);
  if (new Set(files).size < files.length) {
    throw new UsageError(
      `The "--profile" option has one file for several models: name the model, such as --profile ${all[0]!}=profile.json`,
    );
  }
  const models = own.map(({ name, options }) => ({ name: options.alias ?? name, options }));
  checkNames(
    models.map(({ name }) => name),
    directories,
  );
  return { models, sharedBudget: sharedBudgetOf(own) };
}

function checkNames(names: readonly string[], directories: readonly string[]): void {
  const twice = names.find((name, i) => names.indexOf(name) < i);
  if (twice === undefined) return;
  const same = directories.filter((_, i) => names[i] === twice);
  throw new UsageError(
    `The models ${listed(same, 'and')} have the same name, ${JSON.stringify(twice)}, and requests choose a model by its name. That is the name of its directory or file, or its --alias: choose another for one of them`,
  );
}

/**
 * A size without a name is the budget of all models together, and so is auto: no model may have one of its own beside
 * it. A share is of each model's own experts.
 */
function sharedBudgetOf(
  models: { name: string; budget: { value: string; named: boolean } | undefined }[],
): number | 'auto' | undefined {
  const sizes = models.map(({ budget }) => {
    if (budget === undefined || budget.value === 'auto') return 'auto';
    return budget.named ? undefined : parseBytes(budget.value);
  });
  const total = sizes.find((size) => size !== undefined);
  if (total === undefined || sizes.every((size) => size === total)) return total;
  const own = models.filter((_, i) => sizes[i] !== total).map(({ name }) => name);
  const each = models.map(({ name }) => `--memory-budget ${name}=1GiB`);
  throw new UsageError(
    `The "--memory-budget" option is ${total === 'auto' ? 'auto' : 'a size'} for all models together, and ${listed(own, 'and')} has another one of its own: give one size for all, or one for each model, such as ${each.join(' ')}`,
  );
}
