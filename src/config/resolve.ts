/** Merges flags, environment, configuration file and defaults, in this order of precedence, into checked options. */
import { existsSync } from 'node:fs';
import { z } from 'zod';
import { readPrivateFile } from '../files/private-file.js';
import { readTextFile } from '../files/text-file.js';
import { listed } from '../text/listed.js';
import { nearest } from '../text/nearest.js';
import { MOST_SETTINGS, oneLine, parseJson } from '../text/one-line.js';
import { causeOf } from '../text/system-error.js';
import { MODEL_OPTIONS, type ModelNames, unknownName, valueFor } from './model-options.js';
import { type Option, variableOf } from './option.js';
import { type OptionName, SERVE_OPTIONS, type ServeOptions } from './options.js';
import { Expected, isLoopback, type Parser } from './parsers.js';

/** A mistake in the user's options. It is reported without a stack, with exit code 2. */
export class UsageError extends Error {}

/** Options whose values never appear in messages, and that only a private configuration file may hold. */
const SECRET_FLAGS = ['api-key', 'peer-key', 'redis'];

const MOST_CONFIG_BYTES = 1 << 20;

interface Given {
  /** Several where the option was repeated or is a list. */
  values: readonly string[];
  source: string;
}

interface Chosen {
  value: string;
  source: string;
  /** Whether the value was written for one model, as NAME=VALUE. */
  named: boolean;
}

export interface Sources {
  /** Values from the command line, by option name. `config` names the configuration file. */
  flags: Partial<Record<OptionName | 'config', string | readonly string[]>>;
  env: NodeJS.ProcessEnv;
  /** Set where options may be given for one model. */
  names?: ModelNames;
}

export function resolveServeOptions(sources: Sources): ServeOptions {
  const options = resolveOptions(Object.keys(SERVE_OPTIONS) as OptionName[], sources);
  if (!isLoopback(options.host) && options.apiKey === undefined && options.apiKeys === undefined) {
    throw new UsageError(
      `The "--host" option is ${options.host}, which other machines can reach, and there is no key: ` +
        'set SIDA_API_KEY or --api-keys, or listen on 127.0.0.1',
    );
  }
  if ((options.tlsCert === undefined) !== (options.tlsKey === undefined)) {
    const [given, lacks] = options.tlsKey === undefined ? ['cert', 'key'] : ['key', 'cert'];
    throw new UsageError(`The "--tls-${given}" option needs "--tls-${lacks}", too`);
  }
  if (options.worker === 'none' && options.redis === undefined) {
    throw new UsageError(
      'The "--worker" option is none, and there is no queue that workers could share: add --redis redis://127.0.0.1:6379',
    );
  }
  if (options.keepAlive !== undefined && options.redis !== undefined) {
    throw new UsageError(
      'The "--keep-alive" option unloads models that nobody asks for, and with "--redis" jobs come from other servers: leave one of them out',
    );
  }
  const kept = (['latencyP95', 'firstTokenP95', 'tokensPerSecond'] as const).find((name) => options[name]);
  const yields = options.memoryPressure === 'yield';
  if (options.worker === 'none' && yields) {
    throw new UsageError(
      'The "--memory-pressure" option changes the budget of an engine, and the "--worker" option is none: leave one of them out',
    );
  }
  if (options.redis !== undefined && kept !== undefined) {
    throw new UsageError(
      `The "--${SERVE_OPTIONS[kept].flag}" option measures the answers of this server, and with "--redis" other engines give some of them: leave one of them out`,
    );
  }
  if (options.worker === 'none' && options.maxQuote !== undefined) {
    throw new UsageError(
      'The "--max-quote" option needs an engine, and the "--worker" option is none: leave one of them out',
    );
  }
  if (yields && options.device === 'cuda') {
    throw new UsageError(
      'The "--memory-pressure" option gives memory of the machine back, and the "--device" option is cuda: leave one of them out',
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
  sources: Sources,
): Pick<ServeOptions, K> {
  const { env } = sources;
  const fromFile = configOf(sources);
  const resolved: Record<string, unknown> = {};
  for (const [name, option] of Object.entries(SERVE_OPTIONS) as [K, Option<unknown>][]) {
    if (!names.includes(name)) continue;
    const given = find(name, option, sources, fromFile) ?? fallback(option, resolved, env);
    resolved[name] = given && parse(option, given);
  }
  return resolved as Pick<ServeOptions, K>;
}

/** The model directories that the sources name, in order; empty without any. */
export function givenModels(sources: Sources): readonly string[] {
  const { model: option } = SERVE_OPTIONS;
  const [given] = givenFor('model', option, sources, configOf(sources), true);
  if (given === undefined) return [];
  const { values, source } = given;
  return values.map((value) => parse(option, { value, source }));
}

/** The value of an option of one model, as it is written. Undefined when no source has one. */
export function writtenFor(name: OptionName, sources: Sources): Omit<Chosen, 'source'> | undefined {
  return find(name, SERVE_OPTIONS[name], sources, configOf(sources));
}

function configOf({ flags, env }: Sources): Record<string, Given> {
  const file = flags.config ?? (env.SIDA_CONFIG || undefined);
  return file === undefined ? {} : readConfigFile(String(file));
}

function find(
  name: OptionName,
  option: Option<unknown>,
  sources: Sources,
  fromFile: Record<string, Given>,
): Chosen | undefined {
  const several = sources.names !== undefined && MODEL_OPTIONS.has(name);
  for (const given of givenFor(name, option, sources, fromFile, several)) {
    const found = chosen(name, option, given, sources.names);
    if (found !== undefined) return { ...found, source: given.source };
  }
  return undefined;
}

function chosen(
  name: OptionName,
  { flag }: Option<unknown>,
  { values, source }: Given,
  names: ModelNames | undefined,
): Omit<Chosen, 'source'> | undefined {
  if (names === undefined || !MODEL_OPTIONS.has(name)) {
    // Of a repeated flag, the last one counts.
    if (values.length === 1 || source.startsWith('--')) return { value: values.at(-1)!, named: false };
    throw new UsageError(
      `Expected the "--${flag}" option from ${source} to be one value, found ${values.length}`,
    );
  }
  const unknown = unknownName(name, values, names.all);
  if (unknown !== undefined) {
    const all = listed(
      names.all.map((each) => JSON.stringify(each)),
      'and',
    );
    throw new UsageError(
      `The "--${flag}" option names the model ${JSON.stringify(unknown)}, which is not served: ${all} ${names.all.length === 1 ? 'is' : 'are'}`,
    );
  }
  return valueFor(values, names);
}

/** What each source says, in the order of precedence. A variable is a list when there may be `several` values. */
function givenFor(
  name: OptionName,
  option: Option<unknown>,
  { flags, env }: Sources,
  fromFile: Record<string, Given>,
  several: boolean,
): Given[] {
  const given: Given[] = [];
  const flag = flags[name];
  if (flag !== undefined)
    given.push({ values: typeof flag === 'string' ? [flag] : flag, source: `--${option.flag}` });
  const names = namesOf(option);
  for (const source of names.map(variableOf)) {
    const variable = env[source];
    // Shells and compose files often pass an empty variable to mean an unset one.
    if (variable === undefined || variable === '') continue;
    given.push({ values: several ? separated(variable) : [variable], source });
  }
  return [...given, ...names.flatMap((key) => fromFile[key] ?? [])];
}

/** A flag and its former name, by precedence. */
function namesOf({ flag, formerly }: Pick<Option<unknown>, 'flag' | 'formerly'>): string[] {
  return formerly === undefined ? [flag] : [flag, formerly];
}

/** Splits a variable at commas. A path may have commas of its own. */
function separated(variable: string): string[] {
  return existsSync(variable) ? [variable] : variable.split(',');
}

function fallback(
  option: Option<unknown>,
  soFar: Record<string, unknown>,
  env: NodeJS.ProcessEnv,
): Chosen | undefined {
  if (option.default === undefined) {
    throw new UsageError(`The "--${option.flag}" option is missing (or set ${option.env}): ${option.help}`);
  }
  if (option.default === null) return undefined;
  const value = typeof option.default === 'function' ? option.default(soFar, env) : option.default;
  return { value, source: 'default', named: false };
}

/** Parses the value of a flag that is in no option table. Throws UsageError. */
export function parseFlag<T>(flag: string, parser: Parser<T>, value: string): T {
  return parse({ flag, parse: parser }, { value, source: `--${flag}` });
}

function parse<T>(
  option: Pick<Option<T>, 'flag' | 'parse'>,
  { value, source }: Pick<Chosen, 'value' | 'source'>,
): T {
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

function holdsSecret(parsed: unknown): boolean {
  return typeof parsed === 'object' && parsed !== null && SECRET_FLAGS.some((flag) => flag in parsed);
}

function parseConfig(text: string): unknown {
  return parseJson(Buffer.from(text), z.unknown(), MOST_SETTINGS, { secret: true });
}

function readConfigFile(file: string): Record<string, Given> {
  let parsed: unknown;
  try {
    parsed = parseConfig(readTextFile(file, 'invalid_request', MOST_CONFIG_BYTES));
    // The rights are those of the file that is used, also when it was replaced meanwhile.
    if (holdsSecret(parsed)) parsed = parseConfig(readPrivateFile(file));
  } catch (error) {
    throw new UsageError(`Cannot read the configuration file ${file}: ${causeOf(error)}`);
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) {
    throw new UsageError(
      `Expected the configuration file ${file} to be a JSON object; for example {"port": 8080}`,
    );
  }
  const known = new Set(Object.values(SERVE_OPTIONS).flatMap((option) => namesOf(option)));
  const takesList = new Set(['model', ...[...MODEL_OPTIONS].flatMap((name) => namesOf(SERVE_OPTIONS[name]))]);
  const given: Record<string, Given> = {};
  for (const [key, value] of Object.entries(parsed)) {
    if (!known.has(key)) {
      const meant = nearest(key, known);
      throw new UsageError(
        `The configuration file ${file} has an unknown key ${JSON.stringify(key)}; ${meant === undefined ? `known are ${[...known].join(', ')}` : `did you mean "${meant}"?`}`,
      );
    }
    const values: unknown[] = Array.isArray(value) && takesList.has(key) ? value : [value];
    const secret = SECRET_FLAGS.includes(key);
    // A number would have lost digits of a key.
    const valid = secret ? ['string'] : ['string', 'number'];
    if (values.length === 0 || !values.every((each) => valid.includes(typeof each))) {
      const found = secret ? '' : ` as ${oneLine(JSON.stringify(value))}`;
      throw new UsageError(
        `The configuration file ${file} has ${JSON.stringify(key)}${found}; ${secret ? 'a text' : 'a text or a number'} is right`,
      );
    }
    given[key] = { values: values.map(String), source: file };
  }
  return given;
}
