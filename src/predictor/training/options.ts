/** The training options in one table: flag, value of each preset, unit and reason. */
import { Expected, oneOf, type Parser, wholeNumber } from '../../config/parsers.js';
import { UsageError } from '../../config/resolve.js';
import { SCHEDULES } from './schedule.js';

export interface TrainingOption<T> {
  flag: string;
  /** Placeholder of the value in help texts; absent for a switch. */
  value?: string;
  paper: T;
  recommended: T;
  unit?: string;
  help: string;
  parse: Parser<T>;
}

function option<T>(definition: TrainingOption<T>): TrainingOption<T> {
  return definition;
}

function number(least: number, most: number, example: string): Parser<number> {
  return (text) => {
    const value = /^\d*\.?\d+(e[+-]?\d+)?$/i.test(text.trim()) ? Number(text) : Number.NaN;
    if (value >= least && value <= most) return value;
    throw new Expected(`a number from ${least} to ${most}`, example);
  };
}

const yesNo: Parser<boolean> = (text) => {
  if (text === 'true' || text === 'false') return text === 'true';
  throw new Expected('true or false', 'true');
};

/** For routers that choose one expert. A sharper teacher gives its first choice more weight against the others. */
const ONE_CHOICE_SHARPNESS = 20;

export const TRAINING_OPTIONS = {
  hidden: option({
    flag: 'hidden',
    value: '<n>',
    paper: 256,
    recommended: 128,
    unit: 'units',
    help: 'width of the layers; the cost grows with its square. With --blocks a multiple of 16',
    parse: wholeNumber(8, 4096, '128'),
  }),
  blocks: option({
    flag: 'blocks',
    value: '<n>',
    paper: 0,
    recommended: 2,
    help: 'residual attention blocks in place of the LSTM layers; 0 keeps the LSTM layers',
    parse: wholeNumber(0, 4, '2'),
  }),
  bidirectional: option({
    flag: 'bidirectional',
    paper: false,
    recommended: false,
    help: 'LSTM layers of the encoder network read both ways, each with half the width; those of the decoder never do',
    parse: yesNo,
  }),
  positions: option({
    flag: 'positions',
    paper: false,
    recommended: false,
    help: 'a position input beside the embedding',
    parse: yesNo,
  }),
  top: option({
    flag: 'top',
    value: '<n>',
    paper: 30,
    recommended: 30,
    unit: 'experts',
    help: "T: distillation covers the teacher's best T experts",
    parse: wholeNumber(1, 65_535, '30'),
  }),
  sharpness: option({
    flag: 'sharpness',
    value: '<x>',
    paper: 1,
    recommended: 0,
    unit: `0 is ${ONE_CHOICE_SHARPNESS} where the routers choose one expert a token, else 1`,
    help: "factor on the teacher's logits before their softmax. Routers are often nearly undecided, and unsharpened logits then teach little about which expert wins",
    parse: number(0, 1000, '20'),
  }),
  lambda: option({
    flag: 'lambda',
    value: '<x>',
    paper: 0.005,
    recommended: 0.3,
    help: 'λ: weight of the cross-entropy beside the distillation',
    parse: number(0, 1000, '0.005'),
  }),
  k: option({
    flag: 'k',
    value: '<n>',
    paper: 0,
    recommended: 0,
    unit: "experts; 0 is as many as the model's routers choose",
    help: "the cross-entropy covers the teacher's best k experts",
    parse: wholeNumber(0, 64, '1'),
  }),
  distillation: option({
    flag: 'distillation',
    value: '<loss>',
    paper: 'kl' as 'kl' | 'l1',
    recommended: 'kl' as 'kl' | 'l1',
    help: 'distance of the distillation: kl or l1',
    parse: oneOf(['kl', 'l1'] as const),
  }),
  studentOverTop: option({
    flag: 'student-over-top',
    paper: false,
    recommended: false,
    help: "normalize the student's probabilities over the distilled experts alone and not over all",
    parse: yesNo,
  }),
  lr: option({
    flag: 'lr',
    value: '<x>',
    paper: 5e-5,
    recommended: 1e-2,
    help: 'learning rate of AdamW; with a schedule its highest value',
    parse: number(1e-9, 10, '1e-3'),
  }),
  schedule: option({
    flag: 'schedule',
    value: '<name>',
    paper: 'constant' as (typeof SCHEDULES)[number],
    recommended: 'cosine' as (typeof SCHEDULES)[number],
    help: `course of the learning rate: ${SCHEDULES.join(' or ')}, which falls to 0 at the end of --epochs or --max-minutes`,
    parse: oneOf(SCHEDULES),
  }),
  warmup: option({
    flag: 'warmup',
    value: '<n>',
    paper: 0,
    recommended: 100,
    unit: 'steps',
    help: 'steps over which the learning rate rises from 0',
    parse: wholeNumber(0, 1_000_000, '100'),
  }),
  weightDecay: option({
    flag: 'weight-decay',
    value: '<x>',
    paper: 0.01,
    recommended: 0.01,
    help: 'decoupled weight decay of AdamW',
    parse: number(0, 10, '0.01'),
  }),
  clipNorm: option({
    flag: 'clip-norm',
    value: '<x>',
    paper: 0,
    recommended: 1,
    unit: '0 is off',
    help: "largest norm of a step's gradient",
    parse: number(0, 1e6, '1'),
  }),
  batch: option({
    flag: 'batch',
    value: '<n>',
    paper: 64,
    recommended: 64,
    unit: 'sequences',
    help: 'most sequences of a minibatch',
    parse: wholeNumber(1, 65_536, '64'),
  }),
  batchTokens: option({
    flag: 'batch-tokens',
    value: '<n>',
    paper: 0,
    recommended: 1024,
    unit: 'tokens; 0 is no limit',
    help: 'most tokens of a minibatch. It bounds memory for long texts; more and smaller steps learn faster',
    parse: wholeNumber(0, 1 << 24, '1024'),
  }),
  epochs: option({
    flag: 'epochs',
    value: '<n>',
    paper: 10,
    recommended: 10,
    unit: 'passes over the traces',
    help: 'longest training of each network',
    parse: wholeNumber(1, 100_000, '10'),
  }),
  maxMinutes: option({
    flag: 'max-minutes',
    value: '<x>',
    paper: 0,
    recommended: 0,
    unit: 'minutes; 0 is no limit',
    help: 'time for both networks together, four fifths of it for the encoder. The result then depends on the speed of the machine',
    parse: number(0, 1e6, '10'),
  }),
  evaluateEvery: option({
    flag: 'evaluate-every',
    value: '<n>',
    paper: 250,
    recommended: 250,
    unit: 'steps',
    help: 'steps between two measurements on held-out sequences',
    parse: wholeNumber(1, 1_000_000, '250'),
  }),
  patience: option({
    flag: 'patience',
    value: '<n>',
    paper: 10,
    recommended: 10,
    unit: 'measurements; 0 is off',
    help: 'training stops after this many measurements without a better held-out hit rate',
    parse: wholeNumber(0, 1_000_000, '10'),
  }),
  heldOutShare: option({
    flag: 'held-out-share',
    value: '<x>',
    paper: 0.02,
    recommended: 0.02,
    help: 'share of the sequences held out when --held-out names no traces',
    parse: number(0.0001, 0.9, '0.02'),
  }),
  seed: option({
    flag: 'seed',
    value: '<n>',
    paper: 1,
    recommended: 1,
    help: 'seed of the weights, the order of the data and the held-out share',
    parse: wholeNumber(0, 2 ** 31 - 1, '1'),
  }),
};

export type TrainingOptionName = keyof typeof TRAINING_OPTIONS;
export type TrainingOptions = { [K in TrainingOptionName]: (typeof TRAINING_OPTIONS)[K]['paper'] };

export const PRESETS = ['paper', 'recommended'] as const;
export type Preset = (typeof PRESETS)[number];

/** Returns the preset's options, overridden by those given. Throws UsageError in the words of the flag. */
export function resolveTrainingOptions(
  preset: Preset,
  given: Partial<Record<TrainingOptionName, string>>,
): TrainingOptions {
  const entries = (Object.entries(TRAINING_OPTIONS) as [TrainingOptionName, TrainingOption<unknown>][]).map(
    ([name, option]) => {
      const text = given[name];
      if (text === undefined) return [name, option[preset]];
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
  return Object.fromEntries(entries) as TrainingOptions;
}

/** Replaces zeros by the values that depend on the model. */
export function fittedOptions(options: TrainingOptions, topK: number): TrainingOptions {
  return {
    ...options,
    sharpness: options.sharpness || (topK === 1 ? ONE_CHOICE_SHARPNESS : 1),
    k: options.k || topK,
  };
}
