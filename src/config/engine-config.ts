/** The configuration of an engine process, selected from the options. */
import { existsSync } from 'node:fs';
import type { ServedPack } from '../checkpoint/prepare-pack.js';
import { DEFAULT_GROUP, type FormatChoices } from '../checkpoint/weight-format.js';
import type { Activations } from '../native/addon-types.js';
import { ENGINE_OPTIONS } from './engine-options.js';
import type { ServeOptions } from './options.js';
import { isLoopback } from './parsers.js';
import { UsageError } from './resolve.js';

/** Options of the model and its engine, which `sida worker` and `sida serve` share. */
export const ENGINE_OPTION_NAMES = [
  ...(Object.keys(ENGINE_OPTIONS) as (keyof typeof ENGINE_OPTIONS)[]),
  'maxInputBytes',
] as const satisfies (keyof ServeOptions)[];

export type EngineOptions = Pick<ServeOptions, (typeof ENGINE_OPTION_NAMES)[number]>;

/** `routingK` undefined means the model's top-k. */
export interface EngineConfig extends Omit<EngineOptions, WeightOption>, FormatChoices {
  /** Set for a replacement engine: the pack that its predecessor served, and its predictor's fingerprint. */
  served?: ServedPack & { predictor: string | null };
}

/** A configuration whose sizes the model and the machine have decided. The budget is a number of bytes. */
export type SizedConfig = Omit<EngineConfig, 'context' | 'kvTokens' | 'activations'> & {
  kvTokens: number;
  activations: Activations;
};

/** Throws UsageError when a file that an option names does not exist. */
export function engineConfig(options: EngineOptions): EngineConfig {
  const { predictor } = options;
  // A predictor that is damaged, or goes away later, only makes the server slower; a wrong path is a mistake.
  if (!['auto', 'none'].includes(predictor) && !existsSync(predictor)) {
    throw new UsageError(
      `The "--predictor" option names ${JSON.stringify(predictor)}, which does not exist: name a directory of \`sida train\`, auto or none`,
    );
  }
  checkPredictorDevice(options);
  checkPeers(options);
  const own = Object.fromEntries(ENGINE_OPTION_NAMES.map((name) => [name, options[name]])) as EngineOptions;
  const { group: _, ...rest } = own;
  return { ...rest, ...weightChoices(own) };
}

/** Throws UsageError for a predictor on the GPU of a model that is not there. */
export function checkPredictorDevice({
  device,
  predictorDevice,
}: Pick<EngineOptions, 'device' | 'predictorDevice'>): void {
  if (predictorDevice !== 'cuda' || device === 'cuda') return;
  throw new UsageError(
    `The "--predictor-device" option is cuda, which needs --device cuda: the device is ${device} here`,
  );
}

function checkPeers({ expertPeers = [], peerKey, device }: EngineOptions): void {
  if (expertPeers.length > 0 && device !== 'cpu') {
    throw new UsageError(
      `The "--expert-peers" option needs the cpu device, and "--device" is ${device}: leave one of them out`,
    );
  }
  const addresses = expertPeers.map(({ host, port }) => `${host}:${port}`);
  const twice = addresses.find((address, i) => addresses.indexOf(address) < i);
  if (twice !== undefined) throw new UsageError(`The "--expert-peers" option names ${twice} twice`);
  const far = expertPeers.find(({ host }) => !isLoopback(host));
  if (far !== undefined && peerKey === undefined) {
    throw new UsageError(
      `The "--expert-peers" option names ${far.host}, another machine, and there is no key that it could show: set SIDA_PEER_KEY here and there`,
    );
  }
}

export const WEIGHT_OPTIONS = ['experts', 'dense', 'group'] as const;
type WeightOption = (typeof WEIGHT_OPTIONS)[number];

/** Combines `--experts`, `--dense` and `--group` into the element types of a pack. Throws UsageError. */
export function weightChoices({ experts, dense, group }: Pick<ServeOptions, WeightOption>): FormatChoices {
  if (experts === 'int4') return { experts: { dtype: experts, group: group ?? DEFAULT_GROUP }, dense };
  if (group !== undefined) {
    throw new UsageError(
      `The "--group" option is ${group}, which only --experts int4 has: experts are ${experts} here`,
    );
  }
  return { experts, dense };
}
