/** The systems that are compared. Each decides in its own way which experts are on the device. */

export type SystemName =
  | 'resident'
  | 'layer-streaming'
  | 'lru'
  | 'none'
  | 'fifo'
  | 'lfu'
  | 'expert-buffering'
  | 'default'
  | 'token'
  | 'lstm'
  | 'lstm-on-gpu'
  | 'attention'
  | 'predicted'
  | 'paper'
  | 'replay'
  | 'shuffled';

export interface BenchSystem {
  name: SystemName;
  /**
   * threads: the inference and hash-building threads of `sida serve`. engine: the native engine alone, driven by the
   * measuring process.
   */
  driver: 'threads' | 'engine';
  /** Whether its answers must have the bits of the resident run. */
  exact: boolean;
  /** What it needs before it can run. */
  needs: readonly ('predictor' | 'trace')[];
}

export interface SystemPaths {
  predictor: string;
  /** A trace of the measured inputs themselves. */
  trace: string;
}

function system(name: SystemName, rest: Partial<Omit<BenchSystem, 'name'>> = {}): BenchSystem {
  return { name, driver: 'threads', exact: true, needs: [], ...rest };
}

const predicting = { needs: ['predictor'] } as const;

/** bench/README.md says what they do. */
export const SYSTEMS: readonly BenchSystem[] = [
  system('resident'),
  system('layer-streaming', { driver: 'engine' }),
  ...(['lru', 'none', 'fifo', 'lfu'] as const).map((name) => system(name)),
  system('expert-buffering', { driver: 'engine' }),
  ...(['default', 'token', 'lstm', 'lstm-on-gpu', 'attention'] as const).map((name) => system(name, predicting)),
  ...(['predicted', 'paper'] as const).map((name) => system(name, { ...predicting, exact: false })),
  system('replay', { needs: ['trace'] }),
  system('shuffled', predicting),
];

/** Trained predictors with exact answers. */
export const TRAINED: readonly SystemName[] = ['lstm', 'attention'];

/** What predicts nothing and stands beside every row of those. */
export const UNPREDICTED = ['lru', 'none'] as const satisfies readonly SystemName[];

export function systemNamed(name: string): BenchSystem {
  const found = SYSTEMS.find((each) => each.name === name);
  if (found === undefined) throw new Error(`No system ${name}. This is a bug.`);
  return found;
}

/** Options of `sida serve` for a system whose driver is `threads`. */
export function systemFlags(name: SystemName, { predictor, trace }: SystemPaths): Record<string, string> {
  const policy = 'farthest-next-use';
  switch (name) {
    case 'resident':
      return { policy: 'lru', predictor: 'none' };
    case 'lru':
    case 'fifo':
    case 'lfu':
      return { policy: name, predictor: 'none' };
    case 'none':
      return { predictor: 'none' };
    case 'default':
      return { predictor };
    case 'token':
    case 'lstm':
    case 'attention':
      return { policy, predictor, hashFunction: name, routeAhead: '0' };
    case 'lstm-on-gpu':
      return { ...systemFlags('lstm', { predictor, trace }), predictorDevice: 'cuda' };
    case 'predicted':
      return { policy, predictor, routing: 'predicted' };
    case 'paper':
      return { ...systemFlags('predicted', { predictor, trace }), policy: 'fifo' };
    case 'shuffled':
      return { policy, predictor, routeAhead: '0' };
    case 'replay':
      return { policy, predictor: trace, routeAhead: '0' };
    default:
      throw new Error(`${name} is not run by the threads of sida serve. This is a bug.`);
  }
}
