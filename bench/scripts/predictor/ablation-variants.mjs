// The rows of the ablation: what each changes in the defaults of its kind of network.

/** `only`: the models that the row is of. A bidirectional network must know the whole input. */
export const VARIANTS = [
  { name: 'lstm: TKD + λ·CE', network: 'lstm', flags: [] },
  // The same again: what differs less than these is chance.
  { name: 'lstm: TKD + λ·CE, seed 2', network: 'lstm', flags: ['--seed', '2'] },
  { name: 'lstm: TKD + λ·CE, seed 3', network: 'lstm', flags: ['--seed', '3'] },
  { name: 'TKD alone (λ = 0)', network: 'lstm', flags: ['--lambda', '0'] },
  { name: 'KD (all experts, λ = 0)', network: 'lstm', flags: ['--top', '0', '--lambda', '0'] },
  { name: 'CE alone', network: 'lstm', flags: ['--distillation', 'none', '--lambda', '1'] },
  { name: 'T = 4', network: 'lstm', flags: ['--top', '4'] },
  { name: 'T = 8', network: 'lstm', flags: ['--top', '8'] },
  { name: 'T = all', network: 'lstm', flags: ['--top', '0'] },
  { name: 'λ = 0.05', network: 'lstm', flags: ['--lambda', '0.05'] },
  { name: 'λ = 0.3', network: 'lstm', flags: ['--lambda', '0.3'] },
  { name: 'λ = 1', network: 'lstm', flags: ['--lambda', '1'] },
  {
    name: 'teacher sharpened 20 times',
    network: 'lstm',
    flags: ['--sharpness', '20'],
    only: ({ topK }) => topK === 1,
  },
  { name: 'softmax', network: 'lstm', flags: ['--attention-weights', 'softmax'] },
  { name: 'one layer', network: 'lstm', flags: ['--layers', '1'] },
  {
    name: 'bidirectional encoder',
    network: 'lstm',
    flags: ['--bidirectional'],
    only: ({ stacks }) => stacks.includes('encoder'),
  },
  { name: 'attention', network: 'attention', flags: [] },
];

/** The token table is learned in every run; it is measured in the first one's directory. */
export const TOKEN = 'token';
