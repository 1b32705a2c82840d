/** Options that each model of a server may have for itself, written NAME=VALUE with the model's name. */
import { ENGINE_OPTIONS } from './engine-options.js';
import type { OptionName } from './options.js';

/** All models share the packs' directory, and how packs are checked. */
const OF_ALL_MODELS: ReadonlySet<string> = new Set<keyof typeof ENGINE_OPTIONS>([
  'model',
  'packDir',
  'checkTensors',
]);

export const MODEL_OPTIONS: ReadonlySet<OptionName> = new Set([
  ...(Object.keys(ENGINE_OPTIONS) as (keyof typeof ENGINE_OPTIONS)[]).filter(
    (name) => !OF_ALL_MODELS.has(name),
  ),
  'profile',
]);

/** Of these, the options whose value is a path. A path may hold `=` itself. */
const PATHS: ReadonlySet<OptionName> = new Set(['predictor', 'profile']);

/** The models of a server, and the one whose options are looked for. */
export interface ModelNames {
  all: readonly string[];
  own: string;
}

interface FoundValue {
  value: string;
  /** Whether the value was written for this model alone. */
  named: boolean;
}

/** The last value for the model among `values`: its own, else one without a name. Undefined when there is neither. */
export function valueFor(values: readonly string[], { all, own }: ModelNames): FoundValue | undefined {
  const ours = values.findLast((value) => value.startsWith(`${own}=`));
  if (ours !== undefined) return { value: ours.slice(own.length + 1), named: true };
  const plain = values.findLast((value) => !all.some((name) => value.startsWith(`${name}=`)));
  return plain === undefined ? undefined : { value: plain, named: false };
}

/** A name in front of `=` that no model has. Undefined when there is none, and for paths. */
export function unknownName(
  option: OptionName,
  values: readonly string[],
  all: readonly string[],
): string | undefined {
  if (PATHS.has(option)) return undefined;
  const names = values
    .filter((value) => value.includes('='))
    .map((value) => value.slice(0, value.indexOf('=')));
  return names.find((name) => !all.includes(name));
}
