/** Merges flags, environment, configuration file and defaults, in this order of precedence, into checked options. */
import { readTextFile } from '../files/text-file.js';
import { nearest } from '../text/nearest.js';
import type { Option } from './option.js';
import { type OptionName, SERVE_OPTIONS, type ServeOptions } from './options.js';
import { Expected, isLoopback } from './parsers.js';

/** A mistake in the user's options. It is reported without a stack, with exit code 2. */
export class UsageError extends Error {}

/** Options whose values never appear in messages. */
const SECRET_FLAGS = ['api-key', 'redis'];

const MOST_CONFIG_BYTES = 1 << 20;

interface Given {
  value: string;
  source: string;
}

export interface Sources {
  /** Values from the command line, by option name. `config` names the configuration file. */
  flags: Partial<Record<OptionName | 'config', string>>;
  env: NodeJS.ProcessEnv;
}

export function resolveServeOptions(sources: Sources): ServeOptions {
  const options = resolveOptions(Object.keys(SERVE_OPTIONS) as OptionName[], sources);
  if (!isLoopback(options.host) && options.apiKey === undefined && options.apiKeys === undefined) {
    throw new UsageError(
      `The "--host" option is ${options.host}, which other machines can reach, and there is no key: ` +
        'set SIDA_API_KEY or --api-keys, or listen on 127.0.0.1',
    );
  }
  if (options.profileSeconds !== undefined && options.profile === undefined) {
    throw new UsageError(
      `The "--profile-seconds" option is ${options.profileSeconds}, but there is no file to write: add --profile profile.json`,
    );
  }
  if (options.worker === 'none' && options.redis === undefined) {
    throw new UsageError(
      'The "--worker" option is none, and there is no queue that workers could share: add --redis redis://127.0.0.1:6379',
    );
  }
  if (options.worker === 'none' && options.profile !== undefined) {
    throw new UsageError(
      'The "--profile" option needs an engine, and the "--worker" option is none: leave one of them out',
    );
  }
  return options;
}

/** Resolves the options named by `names`, in the order of the option table. Throws UsageError. */
export function resolveOptions<K extends OptionName>(
  names: readonly K[],
  { flags, env }: Sources,
): Pick<ServeOptions, K> {
  const file = flags.config ?? (env.SIDA_CONFIG || undefined);
  const fromFile = file === undefined ? {} : readConfigFile(file);
  const resolved: Record<string, unknown> = {};
  for (const [name, option] of Object.entries(SERVE_OPTIONS) as [K, Option<unknown>][]) {
    if (!names.includes(name)) continue;
    const given = find(name, option, flags, env, fromFile) ?? fallback(option, resolved, env);
    resolved[name] = given === undefined ? undefined : parse(option, given);
  }
  return resolved as Pick<ServeOptions, K>;
}

function find(
  name: OptionName,
  option: Option<unknown>,
  flags: Sources['flags'],
  env: NodeJS.ProcessEnv,
  fromFile: Record<string, Given>,
): Given | undefined {
  const flag = flags[name];
  if (flag !== undefined) return { value: flag, source: `--${option.flag}` };
  const variable = env[option.env];
  // Shells and compose files often pass an empty variable to mean an unset one.
  if (variable !== undefined && variable !== '') return { value: variable, source: option.env };
  return fromFile[option.flag];
}

function fallback(
  option: Option<unknown>,
  soFar: Record<string, unknown>,
  env: NodeJS.ProcessEnv,
): Given | undefined {
  if (option.default === undefined) {
    throw new UsageError(`The "--${option.flag}" option is missing (or set ${option.env}): ${option.help}`);
  }
  if (option.default === null) return undefined;
  const value = typeof option.default === 'function' ? option.default(soFar, env) : option.default;
  return { value, source: 'default' };
}

function parse(option: Option<unknown>, { value, source }: Given): unknown {
  try {
    return option.parse(value);
  } catch (error) {
    if (!(error instanceof Expected)) throw error;
    const from = source.startsWith('--') ? '' : ` from ${source}`;
    const shown = SECRET_FLAGS.includes(option.flag) ? '' : `, but got ${JSON.stringify(value)}`;
    throw new UsageError(
      `Expected the "--${option.flag}" option${from} to be ${error.what}${shown}; for example ${error.example}`,
    );
  }
}

function readConfigFile(file: string): Record<string, Given> {
  let parsed: unknown;
  try {
    parsed = JSON.parse(readTextFile(file, 'invalid_request', MOST_CONFIG_BYTES));
  } catch (error) {
    throw new UsageError(`Cannot read the configuration file ${file}: ${(error as Error).message}`);
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) {
    throw new UsageError(
      `Expected the configuration file ${file} to be a JSON object; for example {"port": 8080}`,
    );
  }
  const known = new Set(Object.values(SERVE_OPTIONS).map((option) => option.flag));
  const given: Record<string, Given> = {};
  for (const [key, value] of Object.entries(parsed)) {
    if (!known.has(key)) {
      const meant = nearest(key, known);
      throw new UsageError(
        `The configuration file ${file} has an unknown key ${JSON.stringify(key)}; ${meant === undefined ? `known are ${[...known].join(', ')}` : `did you mean "${meant}"?`}`,
      );
    }
    if (typeof value !== 'string' && typeof value !== 'number') {
      throw new UsageError(
        `The configuration file ${file} has ${JSON.stringify(key)} as ${JSON.stringify(value)}; a text or a number is right`,
      );
    }
    given[key] = { value: String(value), source: file };
  }
  return given;
}
