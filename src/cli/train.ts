/** `sida train`: trains a predictor on traces. */

import { join, resolve } from 'node:path';
import { Command, Option } from 'commander';
import { resolveOptions, UsageError } from '../config/resolve.js';
import type { StackName } from '../predictor/hash-function.js';
import { hitNames } from '../predictor/hit-ranks.js';
import {
  resolveTrainingOptions,
  TRAINING_OPTIONS,
  type TrainingOption,
  type TrainingOptionName,
} from '../predictor/training/options.js';
import { heldOutRows } from '../predictor/training/predictor-card.js';
import type { TrainRequest } from '../predictor/training/setup.js';
import { trainPredictor } from '../predictor/training/train-predictor.js';
import { NETWORK_NAMES, type NetworkName } from '../protocol/predictor-messages.js';
import { printJson, printLines } from '../text/print.js';
import { givenFlags } from './flags.js';
import { Progress } from './progress.js';
import { tableLines } from './table.js';
import { TrainProgress } from './train-progress.js';
import { search } from './train-search.js';

const EXAMPLES = `
Start the same command again after an interruption: the run continues from its last save, at most a minute back, and ends
with the same result. The best weights are chosen by the hit rates on held-out sequences.

Examples:
  sida train traces/words --out predictors/words
  sida train traces/words --held-out traces/words-held-out --out predictors/words --network attention --max-minutes 10
  sida train traces/words traces/more --out predictors/both --hidden 128 --lr 5e-3 --schedule cosine --epochs 5
  sida train traces/words --out searches/words --search --grid 'layers=1,2 hidden=64,128' --max-minutes 2`;

export function trainCommand(): Command {
  const command = new Command('train')
    .description('Train a predictor of experts on traces: networks and token table')
    .argument('<trace...>', 'directories of `sida trace`, all of one model')
    .requiredOption('--out <dir>', 'directory of the predictor; sida-predictor.json appears in it last')
    .option('--held-out <trace...>', 'traces to measure on; otherwise a share of the sequences is held out')
    .addOption(
      new Option(
        '--network <kind>',
        'lstm: the network of SiDA-MoE; attention: residual attention blocks. An --out with the other kind gets this one too',
      )
        .choices(NETWORK_NAMES)
        .default('lstm'),
    )
    .addOption(
      new Option('--only <stack>', 'train the network of one stack alone').choices(['encoder', 'decoder']),
    );
  for (const option of Object.values(TRAINING_OPTIONS) as TrainingOption<unknown>[]) {
    for (const flag of flagsOf(option)) command.addOption(flag);
  }
  return command
    .option(
      '--threads <n>',
      'threads that compute; the result does not depend on their number (default: the cores of this machine; SIDA_THREADS)',
    )
    .option('--search', 'train a grid of short runs, and print the hit rates and the cost of each')
    .option('--grid <text>', "options of the search: 'hidden=64,128 lr=1e-3,2e-3'")
    .option('--json', 'print the result as JSON')
    .addHelpText('after', EXAMPLES)
    .action(train);
}

function defaultsOf({ lstm, attention, only }: TrainingOption<unknown>): string {
  if (only !== undefined) return `${only} alone, default ${only === 'lstm' ? lstm : attention}`;
  return `default ${lstm === attention ? lstm : `${lstm}, of attention ${attention}`}`;
}

function flagsOf(option: TrainingOption<unknown>): Option[] {
  const { flag, value, unit, help } = option;
  const notes = [unit, defaultsOf(option)].filter(Boolean).join('; ');
  if (value !== undefined) return [new Option(`--${flag} ${value}`, `${help} (${notes})`)];
  return [new Option(`--${flag}`, `${help} (${notes})`), new Option(`--no-${flag}`, `turns --${flag} off`)];
}

/** The training options given on the command line, as text. */
function givenOptions(values: Record<string, unknown>): Partial<Record<TrainingOptionName, string>> {
  const given: Partial<Record<TrainingOptionName, string>> = {};
  for (const name of Object.keys(TRAINING_OPTIONS) as TrainingOptionName[]) {
    if (values[name] !== undefined) given[name] = String(values[name]);
  }
  return given;
}

async function train(traces: string[], values: Record<string, unknown>): Promise<void> {
  const given = givenOptions(values);
  const network = values.network as NetworkName;
  const request: TrainRequest = {
    traces: traces.map((trace) => resolve(trace)),
    heldOut: ((values.heldOut as string[] | undefined) ?? []).map((trace) => resolve(trace)),
    network,
    options: resolveTrainingOptions(network, given),
    ...(values.only !== undefined && { only: values.only as StackName }),
    threads: resolveOptions(['threads'], { flags: givenFlags(values), env: process.env }).threads,
  };
  if (values.grid !== undefined && values.search !== true) throw new UsageError('--grid needs --search');
  const out = resolve(String(values.out));
  const interruption = new AbortController();
  const interrupt = () =>
    interruption.abort(new Error('Interrupted; start the same command again to go on from here'));
  process.once('SIGINT', interrupt).once('SIGTERM', interrupt);
  const forget = () => process.off('SIGINT', interrupt).off('SIGTERM', interrupt);
  const progress = new TrainProgress();
  const tables = new Progress();
  const events = {
    signal: interruption.signal,
    onProgress: progress.show.bind(progress),
    onEvaluation: progress.measured.bind(progress),
    onLearning: (done: number, total: number) => {
      progress.stop();
      // From here on nothing is saved, and computations that take seconds do not react to the abort. Without the
      // handlers, a signal ends the process at once.
      forget();
      tables.show({ phase: 'tables', done, total });
    },
    onPhase: (text: string) => {
      tables.stop();
      progress.say(text);
    },
  };
  try {
    if (values.search === true) {
      const grid = values.grid === undefined ? undefined : String(values.grid);
      return await search({ request, given, grid, out, json: values.json === true }, events, progress);
    }
    const { manifest, endedBefore } = await trainPredictor(request, out, events);
    progress.stop();
    if (values.json === true) {
      printJson({ directory: out, endedBefore, ...manifest }, 1);
      return;
    }
    const rows = [
      [`hits ${hitNames(manifest.topK).join(' / ')}`, ...Object.keys(manifest.heldOut)],
      ...heldOutRows(manifest),
    ];
    printLines(
      `${out}${endedBefore ? ' (was trained before)' : ''}`,
      ...tableLines(`l${'r'.repeat(rows[0]!.length - 1)}`, rows),
      `measurements: ${join(out, network, 'training.jsonl')}`,
    );
  } finally {
    progress.stop();
    tables.stop();
    forget();
  }
}
