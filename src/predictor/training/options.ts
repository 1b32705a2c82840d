/** The training options in one table: flag, default for each kind of network, unit and reason. */
import { Expected, number, oneOf, type Parser, wholeNumber } from '../../config/parsers.js';
import { UsageError } from '../../config/resolve.js';
import type { NetworkName } from '../../protocol/predictor-messages.js';
import { SCHEDULES } from './schedule.js';

export interface TrainingOption<T> {
  flag: string;
  /** Placeholder of the value in help texts; absent for a switch. */
  value?: string;
  /** Defaults. Those of the `lstm` network are SiDA-MoE's network and loss. */
  lstm: T;
  attention: T;
  /** The kind of network that has this option. Default: both. */
  only?: NetworkName;
  unit?: string;
  help: string;
  parse: Parser<T>;
}

function option<T>(definition: TrainingOption<T>): TrainingOption<T> {
  return definition;
}

const yesNo: Parser<boolean> = (text) => {
  if (text === 'true' || text === 'false') return text === 'true';
  throw new Expected('true or false', 'true');
};

const DISTILLATIONS = ['kl', 'none'] as const;

/** For routers that choose one expert. A sharper teacher gives its first choice more weight against the others. */
const ONE_CHOICE_SHARPNESS = 20;

export const TRAINING_OPTIONS = {
  hidden: option({
    flag: 'hidden',
    value: '<n>',
    lstm: 256,
    attention: 128,
    unit: 'units',
    help: 'width of the layers; the cost grows with its square. Of an attention network a multiple of 16',
    parse: wholeNumber(8, 4096, '128'),
  }),
  layers: option({
    flag: 'layers',
    value: '<n>',
    lstm: 2,
    attention: 0,
    only: 'lstm',
    help: 'LSTM layers: 1 or 2',
    parse: wholeNumber(1, 2, '2'),
  }),
  attentionWeights: option({
    flag: 'attention-weights',
    value: '<name>',
    lstm: 'sparsemax' as 'sparsemax' | 'softmax',
    attention: 'softmax' as 'sparsemax' | 'softmax',
    only: 'lstm',
    help: 'what makes weights of the attention scores behind the LSTM layers: sparsemax or softmax',
    parse: oneOf(['sparsemax', 'softmax'] as const),
  }),
  bidirectional: option({
    flag: 'bidirectional',
    lstm: false,
    attention: false,
    only: 'lstm',
    help: 'LSTM layers of the encoder network read both ways, each with half the width; those of the decoder never do',
    parse: yesNo,
  }),
  blocks: option({
    flag: 'blocks',
    value: '<n>',
    lstm: 0,
    attention: 2,
    only: 'attention',
    help: 'residual attention blocks',
    parse: wholeNumber(1, 4, '2'),
  }),
  top: option({
    flag: 'top',
    value: '<n>',
    lstm: 30,
    attention: 30,
    unit: 'experts; 0 is all',
    help: "T: distillation covers the teacher's best T experts. The traces must hold as many",
    parse: wholeNumber(0, 65_535, '30'),
  }),
  sharpness: option({
    flag: 'sharpness',
    value: '<x>',
    lstm: 1,
    attention: 0,
    unit: `0 is ${ONE_CHOICE_SHARPNESS} where the routers choose one expert a token, else 1`,
    help: "factor on the teacher's logits before their softmax. Routers are often nearly undecided, and unsharpened logits then teach little about which expert wins",
    parse: number(0, 1000, '20'),
  }),
  lambda: option({
    flag: 'lambda',
    value: '<x>',
    lstm: 0.005,
    attention: 0.3,
    help: 'λ: weight of the cross-entropy beside the distillation',
    parse: number(0, 1000, '0.005'),
  }),
  k: option({
    flag: 'k',
    value: '<n>',
    lstm: 0,
    attention: 0,
    unit: "experts; 0 is as many as the model's routers choose",
    help: "the cross-entropy covers the teacher's best k experts",
    parse: wholeNumber(0, 64, '1'),
  }),
  distillation: option({
    flag: 'distillation',
    value: '<loss>',
    lstm: 'kl' as (typeof DISTILLATIONS)[number],
    attention: 'kl' as (typeof DISTILLATIONS)[number],
    help: 'distance of the distillation: kl; none leaves the cross-entropy alone',
    parse: oneOf(DISTILLATIONS),
  }),
  lr: option({
    flag: 'lr',
    value: '<x>',
    lstm: 2e-3,
    attention: 1e-2,
    help: 'learning rate of AdamW; with a schedule its highest value',
    parse: number(1e-9, 10, '1e-3'),
  }),
  schedule: option({
    flag: 'schedule',
    value: '<name>',
    lstm: 'plateau' as (typeof SCHEDULES)[number],
    attention: 'cosine' as (typeof SCHEDULES)[number],
    help: 'course of the learning rate: constant; cosine, which falls to 0 at the end of --epochs or --max-minutes; or plateau, which falls to a tenth where --until is met, twice at most',
    parse: oneOf(SCHEDULES),
  }),
  warmup: option({
    flag: 'warmup',
    value: '<n>',
    lstm: 100,
    attention: 100,
    unit: 'steps',
    help: 'steps over which the learning rate rises from 0',
    parse: wholeNumber(0, 1_000_000, '100'),
  }),
  weightDecay: option({
    flag: 'weight-decay',
    value: '<x>',
    lstm: 0.01,
    attention: 0.01,
    help: 'decoupled weight decay of AdamW',
    parse: number(0, 10, '0.01'),
  }),
  clipNorm: option({
    flag: 'clip-norm',
    value: '<x>',
    lstm: 1,
    attention: 1,
    unit: '0 is off',
    help: "largest norm of a step's gradient",
    parse: number(0, 1e6, '1'),
  }),
  batch: option({
    flag: 'batch',
    value: '<n>',
    lstm: 64,
    attention: 64,
    unit: 'sequences',
    help: 'most sequences of a minibatch',
    parse: wholeNumber(1, 65_536, '64'),
  }),
  batchTokens: option({
    flag: 'batch-tokens',
    value: '<n>',
    lstm: 0,
    attention: 1024,
    unit: 'tokens; 0 is no limit',
    help: 'most tokens of a minibatch. It bounds memory for long texts; more and smaller steps learn faster',
    parse: wholeNumber(0, 1 << 24, '1024'),
  }),
  epochs: option({
    flag: 'epochs',
    value: '<n>',
    lstm: 200,
    attention: 10,
    unit: 'passes over the traces',
    help: 'longest training of each network',
    parse: wholeNumber(1, 100_000, '10'),
  }),
  maxMinutes: option({
    flag: 'max-minutes',
    value: '<x>',
    lstm: 0,
    attention: 0,
    unit: 'minutes; 0 is no limit',
    help: 'time for both networks together, four fifths of it for the encoder. The result then depends on the speed of the machine',
    parse: number(0, 1e6, '10'),
  }),
  evaluateEvery: option({
    flag: 'evaluate-every',
    value: '<n>',
    lstm: 250,
    attention: 250,
    unit: 'steps',
    help: 'steps between two measurements on held-out sequences, beside the one at the end of each epoch',
    parse: wholeNumber(1, 1_000_000, '250'),
  }),
  until: option({
    flag: 'until',
    value: '<x>',
    lstm: 0.1,
    attention: 0,
    unit: '%; 0 is off',
    help: 'training ends when the lowest held-out loss has improved by less than this over --until-epochs; with the plateau schedule the learning rate falls first',
    parse: number(0, 100, '0.1'),
  }),
  untilEpochs: option({
    flag: 'until-epochs',
    value: '<n>',
    lstm: 3,
    attention: 3,
    unit: 'epochs',
    help: 'epochs over which --until looks',
    parse: wholeNumber(1, 100_000, '3'),
  }),
  patience: option({
    flag: 'patience',
    value: '<n>',
    lstm: 0,
    attention: 10,
    unit: 'measurements; 0 is off',
    help: 'training stops after this many measurements without a better held-out hit rate',
    parse: wholeNumber(0, 1_000_000, '10'),
  }),
  heldOutShare: option({
    flag: 'held-out-share',
    value: '<x>',
    lstm: 0.02,
    attention: 0.02,
    help: 'share of the sequences held out when --held-out names no traces',
    parse: number(0.0001, 0.9, '0.02'),
  }),
  seed: option({
    flag: 'seed',
    value: '<n>',
    lstm: 1,
    attention: 1,
    help: 'seed of the weights, the order of the data and the held-out share',
    parse: wholeNumber(0, 2 ** 31 - 1, '1'),
  }),
};

export type TrainingOptionName = keyof typeof TRAINING_OPTIONS;
export type TrainingOptions = { [K in TrainingOptionName]: (typeof TRAINING_OPTIONS)[K]['lstm'] };

/** The names of the options that a kind of network has. */
export function optionNames(network: NetworkName): TrainingOptionName[] {
  return (Object.entries(TRAINING_OPTIONS) as [TrainingOptionName, TrainingOption<unknown>][])
    .filter(([, { only = network }]) => only === network)
    .map(([name]) => name);
}

/** Returns the options that a kind of network has. */
export function ownOptions(network: NetworkName, options: TrainingOptions): Record<string, unknown> {
  return Object.fromEntries(optionNames(network).map((name) => [name, options[name]]));
}

/** Returns the defaults of a kind of network, overridden by the options given. Throws UsageError in their words. */
export function resolveTrainingOptions(
  network: NetworkName,
  given: Partial<Record<TrainingOptionName, string>>,
): TrainingOptions {
  const own = optionNames(network);
  const entries = (Object.entries(TRAINING_OPTIONS) as [TrainingOptionName, TrainingOption<unknown>][]).map(
    ([name, option]) => {
      const text = given[name];
      if (text === undefined) return [name, option[network]];
      if (!own.includes(name)) {
        throw new UsageError(`--${option.flag} is an option of --network ${option.only}, not of ${network}`);
      }
      try {
        return [name, option.parse(text)];
      } catch (error) {
        if (!(error instanceof Expected)) throw error;
        throw new UsageError(
          `Expected the "--${option.flag}" option to be ${error.what}, but got ${JSON.stringify(text)}; for example ${error.example}`,
        );
      }
    },
  );
  const options = Object.fromEntries(entries) as TrainingOptions;
  checkTogether(options);
  return options;
}

function checkTogether({ distillation, lambda, schedule, until }: TrainingOptions): void {
  if (distillation === 'none' && lambda === 0) {
    throw new UsageError('--distillation none with --lambda 0 leaves nothing to learn from');
  }
  if (schedule === 'plateau' && until === 0) {
    throw new UsageError('--schedule plateau needs an --until above 0');
  }
}

/** Replaces zeros by the values that depend on the model. */
export function fittedOptions(
  options: TrainingOptions,
  { experts, topK }: { experts: number; topK: number },
): TrainingOptions {
  return {
    ...options,
    top: options.top || experts,
    sharpness: options.sharpness || (topK === 1 ? ONE_CHOICE_SHARPNESS : 1),
    k: options.k || topK,
  };
}
