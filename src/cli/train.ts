/** `sida train`: trains a predictor on traces. */

import { join, resolve } from 'node:path';
import { Command, Option } from 'commander';
import { Expected, number, type Parser, wholeNumber } from '../config/parsers.js';
import { resolveOptions, UsageError } from '../config/resolve.js';
import { hitNames } from '../forecast/hit-ranks.js';
import type { LayerHitShares, PredictorManifest } from '../predictor/training/manifest.js';
import type { Evaluation, Measures } from '../predictor/training/network-state.js';
import { DEFAULTS, type TrainingOptions } from '../predictor/training/options.js';
import { trainPredictor } from '../predictor/training/train-predictor.js';
import { NETWORK_NAMES, type NetworkName } from '../protocol/predictor-messages.js';
import { printJson, printLines, warnLines } from '../text/print.js';
import { givenFlags } from './flags.js';
import { tableLines } from './table.js';

const EXAMPLES = `
Start the same command again after an interruption: the run continues from its last save, and ends with the same result.
The best weights are chosen by the hit rates on held-out sequences. docs/predictor.md explains the loss and the networks.

Examples:
  sida train traces/words --out predictors/words
  sida train traces/words --held-out traces/words-held-out --out predictors/words --network attention
  sida train traces/words traces/more --out predictors/both --hidden 128 --lr 5e-3 --epochs 5`;

/** The options of the training that have numbers for values. */
const NUMBERS = {
  hidden: [
    '<n>',
    'width of the layers; of an attention network a multiple of 16',
    wholeNumber(8, 4096, '128'),
  ],
  lr: [
    '<x>',
    'highest learning rate; it rises over 100 steps and falls to 0 along a cosine',
    number(1e-9, 10, '1e-3'),
  ],
  batch: ['<n>', 'most sequences of a minibatch', wholeNumber(1, 65_536, '64')],
  epochs: ['<n>', 'passes over the traces', wholeNumber(1, 100_000, '10')],
  seed: [
    '<n>',
    'seed of the weights, the order of the data and the held-out share',
    wholeNumber(0, 2 ** 31 - 1, '1'),
  ],
} as const satisfies Partial<Record<keyof TrainingOptions, readonly [string, string, Parser<number>]>>;

export function trainCommand(): Command {
  const command = new Command('train')
    .argument('<trace...>', 'directories of `sida trace`, all of one model')
    .requiredOption('--out <dir>', 'directory of the predictor; sida-predictor.json appears in it last')
    .option('--held-out <trace...>', 'traces to measure on; otherwise 2 % of the sequences are held out')
    .addOption(
      new Option(
        '--network <kind>',
        'lstm: the network of SiDA-MoE; attention: residual attention blocks. An --out with the other kind gets this one too',
      )
        .choices(NETWORK_NAMES)
        .default('lstm'),
    );
  for (const [name, [value, help]] of Object.entries(NUMBERS)) {
    const [lstm, attention] = NETWORK_NAMES.map((kind) => DEFAULTS[kind][name as keyof typeof NUMBERS]);
    const usual = lstm === attention ? lstm : `${lstm}, of attention ${attention}`;
    command.option(`--${name} ${value}`, `${help} (default ${usual})`);
  }
  return command
    .option(
      '--threads <n>',
      'threads that compute; the result does not depend on their number (default: the cores of this machine; SIDA_THREADS)',
    )
    .option('--json', 'print the result as JSON')
    .addHelpText('after', EXAMPLES)
    .action(train);
}

/** The defaults of the network, overridden by the options given. Throws UsageError in their words. */
function optionsOf(network: NetworkName, values: Record<string, unknown>): TrainingOptions {
  const options = { ...DEFAULTS[network] };
  for (const [name, [, , parse]] of Object.entries(NUMBERS)) {
    if (values[name] === undefined) continue;
    try {
      options[name as keyof typeof NUMBERS] = parse(String(values[name]));
    } catch (error) {
      if (!(error instanceof Expected)) throw error;
      throw new UsageError(
        `Expected the "--${name}" option to be ${error.what}, but got ${JSON.stringify(values[name])}; for example ${error.example}`,
      );
    }
  }
  return options;
}

function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`;
}

function printEvaluation(stack: string, evaluation: Evaluation, done: number): void {
  const { step, epoch, seconds, train, heldOut, best } = evaluation;
  const show = ({ loss, hits }: Measures) =>
    `loss ${loss.toFixed(4)}, hits ${percent(hits[0]!)} / ${percent(hits.at(-1)!)}`;
  const minutes = (seconds * (1 / done - 1)) / 60;
  const parts = [
    `${stack} step ${step} (epoch ${epoch.toFixed(2)})`,
    train && show(train),
    `held out ${show(heldOut)}${best ? ', the best so far' : ''}`,
    `${minutes.toFixed(1)} minutes left`,
  ];
  warnLines(parts.filter(Boolean).join('; '));
}

/** One row per layer: hits at the first and the last rank of each hash function. */
function heldOutRows({ topK, layers, heldOut }: PredictorManifest): string[][] {
  const cell = (of: LayerHitShares | undefined) =>
    of === undefined ? '–' : `${percent(of.hits[0]!)} / ${percent(of.hits.at(-1)!)}`;
  const rows = layers.map((layer) => [
    layer,
    ...Object.values(heldOut).map((own) => cell(own.find((other) => other.layer === layer))),
  ]);
  return [[`hits ${hitNames(topK).join(' / ')}`, ...Object.keys(heldOut)], ...rows];
}

async function train(traces: string[], values: Record<string, unknown>): Promise<void> {
  const network = values.network as NetworkName;
  const request = {
    traces: traces.map((trace) => resolve(trace)),
    heldOut: ((values.heldOut as string[] | undefined) ?? []).map((trace) => resolve(trace)),
    network,
    options: optionsOf(network, values),
    threads: resolveOptions(['threads'], { flags: givenFlags(values), env: process.env }).threads,
  };
  const out = resolve(String(values.out));
  const interruption = new AbortController();
  const interrupt = () =>
    interruption.abort(new Error('Interrupted; start the same command again to go on from here'));
  process.once('SIGINT', interrupt).once('SIGTERM', interrupt);
  const forget = () => process.off('SIGINT', interrupt).off('SIGTERM', interrupt);
  try {
    const { manifest, endedBefore } = await trainPredictor(request, out, {
      signal: interruption.signal,
      onEvaluation: printEvaluation,
      onTrained: () => {
        // The rest takes seconds and does not react to the abort. Without the handlers, a signal ends the process.
        forget();
        warnLines('Learning the token table and measuring on what was held out');
      },
    });
    if (values.json === true) {
      printJson({ directory: out, endedBefore, ...manifest }, 1);
      return;
    }
    const rows = heldOutRows(manifest);
    printLines(
      `${out}${endedBefore ? ' (was trained before)' : ''}`,
      ...tableLines(`l${'r'.repeat(rows[0]!.length - 1)}`, rows),
      `curve: ${join(out, network, 'training.csv')}`,
    );
  } finally {
    forget();
  }
}
