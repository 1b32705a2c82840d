/** Estimates what a request costs from its shape, the load before it and the measured passes. A pure function. */
import { fedTokens, type ItemWork, labelTokens, partsOf } from '../protocol/item-work.js';
import type { PassRates } from '../protocol/quote.js';
import { noSums, type PassCost, type Prior, passCost, passKind, type StackCost } from './pass-rates.js';

export interface CostModel {
  stacks: readonly StackCost[];
  maxBatchTokens: number;
  /** All of the model. */
  experts: number;
  /** Rate of the disk, or of a slower link to the device; 0 if it is not known. */
  bytesPerSecond: number;
}

/** The shape of a request. */
export interface Asked {
  promptTokens: number;
  /** Generated sequences: choices and beams. */
  sequences: number;
  /** Most tokens of one of them. */
  steps: number;
  /** Tokens fed for labels, and the labels' sequences. */
  labelTokens: number;
  labels: number;
  /** Answers that are generated: beams beside the best end with them. */
  answers: number;
}

export function askedOf(inputs: readonly { tokens: { length: number }; work: ItemWork }[]): Asked {
  const asked = { promptTokens: 0, sequences: 0, steps: 0, labelTokens: 0, labels: 0, answers: 0 };
  for (const { tokens, work } of inputs) {
    asked.promptTokens += tokens.length;
    asked.labelTokens += labelTokens(work);
    if (work.kind === 'score') asked.labels += work.plan.inputs.length;
    if (work.kind !== 'generate' && work.kind !== 'search') continue;
    asked.sequences += fedTokens(work).length;
    asked.steps = Math.max(asked.steps, work.maxTokens);
    asked.answers += work.kind === 'search' ? work.best : partsOf(work);
  }
  return asked;
}

/** What runs and waits before the request. */
export interface Load {
  /** Sequences that generate. */
  sequences: number;
  /** Of prompts that have no token yet. */
  promptTokens: number;
  /** Prompts that come in a step: when a job that generates ends, another like it is expected. */
  coming: number;
  /** Mean tokens of such a prompt. */
  comingTokens: number;
}

export interface Estimate {
  queueSeconds: number;
  /** What its own passes would take without the load. */
  aloneSeconds: number;
  firstSeconds: number;
  seconds: number;
  needed: number;
  bytes: number;
}

/** `cached`: share of the prompts' tokens that the prefix cache has. */
export function estimate(
  asked: Asked,
  load: Load,
  model: CostModel,
  rates: PassRates | undefined,
  cached: number,
): Estimate {
  const { stacks, maxBatchTokens } = model;
  const last = stacks.length - 1;
  const prior: Prior = {
    absent: rates === undefined ? 1 : Math.max(0, 1 - rates.slots / Math.max(1, model.experts)),
    loadSeconds: model.bytesPerSecond > 0 ? 1 / model.bytesPerSecond : 0,
  };
  const pass = (stack: number, tokens: number, sequences: number): PassCost =>
    passCost(stacks[stack]!, rates?.sums[passKind(stack, tokens, sequences)] ?? noSums(), tokens, prior);
  /** Tokens that fill passes. */
  const passes = (stack: number, tokens: number, sequences: number): PassCost => {
    const full = Math.floor(tokens / maxBatchTokens);
    const rest = tokens % maxBatchTokens;
    const none = { seconds: 0, needed: 0, bytes: 0 };
    const each = full > 0 ? pass(stack, maxBatchTokens, 1) : none;
    const end = rest > 0 ? pass(stack, rest, sequences) : none;
    return {
      seconds: full * each.seconds + end.seconds,
      needed: full * each.needed + end.needed,
      bytes: full * each.bytes + end.bytes,
    };
  };
  const own = Math.max(1, Math.round(asked.promptTokens * (1 - cached)));
  const step = (others: number) => pass(last, asked.sequences + others, asked.sequences + others);
  // A request comes in the middle of a pass of the others, on average.
  const running = load.sequences > 0 ? pass(last, load.sequences, load.sequences).seconds / 2 : 0;
  const ahead = load.promptTokens > 0 ? passes(0, load.promptTokens, 0).seconds : 0;
  const prompt = passes(0, own, 0);
  const labels = passes(last, asked.labelTokens, asked.labels);
  // The last pass of a prompt gives the first token, unless an encoder reads the prompt.
  const steps = Math.max(0, asked.steps - (last === 0 ? 1 : 0));
  const queueSeconds = running + ahead;
  const before = queueSeconds + prompt.seconds + labels.seconds;
  const coming = load.coming > 0 ? load.coming * passes(0, load.comingTokens, 0).seconds : 0;
  const shared = asked.sequences > 0 ? step(load.sequences).seconds + coming : 0;
  const alone = asked.sequences > 0 ? step(0) : { seconds: 0, needed: 0, bytes: 0 };
  return {
    queueSeconds,
    aloneSeconds: prompt.seconds + labels.seconds + steps * alone.seconds,
    firstSeconds: before + (last > 0 && steps > 0 ? shared : 0),
    seconds: before + steps * shared,
    needed: prompt.needed + labels.needed + steps * alone.needed,
    bytes: prompt.bytes + labels.bytes + steps * alone.bytes,
  };
}
