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
  | 'attention'
  | 'predicted'
  | 'paper'
  | 'replay'
  | 'shuffled';

export interface BenchSystem {
  name: SystemName;
  about: string;
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

function system(
  name: SystemName,
  about: string,
  rest: Partial<Omit<BenchSystem, 'name' | 'about'>> = {},
): BenchSystem {
  return { name, about, driver: 'threads', exact: true, needs: [], ...rest };
}

export const SYSTEMS: readonly BenchSystem[] = [
  system('resident', 'every expert on the device ("Standard")'),
  system(
    'layer-streaming',
    'whole MoE layers stream through the budget in their order, prefetched as deep as its slots allow (model parallelism of the SiDA paper, ZeRO-Inference)',
    { driver: 'engine' },
  ),
  system('lru', 'on demand, the least recently used expert goes'),
  system(
    'none',
    'the default settings of `sida serve` with `--predictor none`: on demand, and not as `lru`: the expert whose next use is expected last goes',
  ),
  system('fifo', 'on demand, the expert loaded first goes'),
  system('lfu', 'on demand, the least frequently used expert goes'),
  system(
    'expert-buffering',
    'on demand; experts known to be inactive in the running batch go first, then the one loaded last ("Towards MoE Deployment")',
    { driver: 'engine' },
  ),
  system('default', 'the default settings of `sida serve` with the predictor', { needs: ['predictor'] }),
  system('token', 'hash tables from what each token was routed to before', { needs: ['predictor'] }),
  system('lstm', "hash tables from LSTM networks, the predictor's `lstm`", { needs: ['predictor'] }),
  system('attention', "hash tables from residual attention blocks, the predictor's `attention`", {
    needs: ['predictor'],
  }),
  system(
    'predicted',
    "tables of the predictor's default network route in place of the routers, as in the SiDA paper: answers may differ",
    { exact: false, needs: ['predictor'] },
  ),
  system('paper', 'the system of the SiDA paper: `predicted`, and the expert loaded first goes', {
    exact: false,
    needs: ['predictor'],
  }),
  system('replay', 'oracle: hash tables hold the true routing', { needs: ['trace'] }),
  system('shuffled', 'control: hash tables name random experts', { needs: ['predictor'] }),
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
