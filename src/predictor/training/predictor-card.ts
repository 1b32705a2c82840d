/** README.md of a predictor directory: how the predictor was made and how often it is right. */

import type { NetworkName } from '../../protocol/predictor-messages.js';
import { shellQuote } from '../../text/shell-quote.js';
import { hitNames } from '../hit-ranks.js';
import {
  type Ending,
  type LayerHitShares,
  type NetworkEntry,
  networksOf,
  type PredictorManifest,
} from './manifest.js';
import { optionNames, TRAINING_OPTIONS } from './options.js';

/** Minutes of each training, by the kind of network and the stack. */
export type TrainingMinutes = Partial<Record<NetworkName, Partial<Record<string, number>>>>;

const ENDED_BECAUSE: Record<Ending, string> = {
  epochs: 'all epochs done',
  plateau: 'the held-out loss improved no more',
  patience: 'no better for as long as the patience',
  minutes: 'the time was up',
};

const MADE_OF: Record<NetworkName, string> = {
  lstm: 'networks of LSTM layers',
  attention: 'networks of residual attention blocks',
};

export function tableOf(head: string[], rows: string[][]): string {
  return [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

export function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`;
}

/**
 * One row per layer: hits at the first and the last rank of each hash function, or a dash if it has no predictions.
 */
export function heldOutRows(manifest: Pick<PredictorManifest, 'layers' | 'heldOut'>): string[][] {
  const cell = (of: LayerHitShares | undefined) =>
    of === undefined ? '–' : `${percent(of.hits[0]!)} / ${percent(of.hits.at(-1)!)}`;
  return manifest.layers.map((layer) => [
    layer,
    ...Object.values(manifest.heldOut).map((layers) => cell(layers.find((other) => other.layer === layer))),
  ]);
}

function traceCommandOf({
  data,
  template,
  maxNewTokens,
  joins,
}: PredictorManifest['trainedOn'][number]): string {
  const joined = Object.entries(joins ?? {}).map(
    ([field, file]) => `--join ${shellQuote(`${field}=${file}`)}`,
  );
  return [
    `sida trace MODEL --data ${shellQuote(data)} --template ${shellQuote(template)}`,
    ...joined,
    `--max-new-tokens ${maxNewTokens} --out TRACE`,
  ].join(' ');
}

/** The command that reproduces a network. */
function commandOf(network: NetworkName, { options, run }: NetworkEntry): string {
  const flags = optionNames(network).flatMap((name) => {
    const { flag, [network]: usual } = TRAINING_OPTIONS[name];
    const value = options[name];
    if (value === usual) return [];
    if (typeof value === 'boolean') return [value ? `--${flag}` : `--no-${flag}`];
    return [`--${flag} ${value}`];
  });
  const { stacks, 'held-out': heldOut } = run;
  const only = Array.isArray(stacks) && stacks.length === 1 ? [`--only ${stacks[0]}`] : [];
  const measured = Array.isArray(heldOut) ? ['--held-out HELD_OUT_TRACE…'] : [];
  return [`sida train TRACE… --out P --network ${network}`, ...measured, ...only, ...flags].join(' ');
}

function whatCounts(topK: number): string {
  if (topK === 1) return 'Share of tokens whose expert is the first named / among the first three';
  return `Share of the routers' experts that are among the first ${topK} / ${2 * topK} named (${hitNames(topK).join(' / ')})`;
}

/** How one kind of network was made. */
function networkSection(
  network: NetworkName,
  entry: NetworkEntry,
  minutes: TrainingMinutes[NetworkName] = {},
): string {
  const trained = entry.training.map(({ stack, steps, epochs, bestStep, ending }) => [
    stack,
    String(steps),
    epochs.toFixed(2),
    minutes[stack]?.toFixed(1) ?? '–',
    String(bestStep),
    ENDED_BECAUSE[ending],
  ]);
  return `## The \`${network}\` networks

    ${commandOf(network, entry)}

[training.jsonl](${network}/training.jsonl) holds the loss and the hit rates over the steps.

${tableOf(['stack', 'steps', 'epochs', 'minutes', 'best step', 'ended because'], trained)}

${tableOf(
  ['option', 'value'],
  optionNames(network).map((name) => [
    `\`--${TRAINING_OPTIONS[name].flag}\``,
    String(entry.options[name] ?? '–'),
  ]),
)}
`;
}

export function predictorCard(manifest: PredictorManifest, minutes: TrainingMinutes): string {
  const { model, trainedOn, heldOut } = manifest;
  const tokens = Object.values(heldOut)[0]?.find(({ layer }) => layer === manifest.layers[0])?.tokens ?? 0;
  const networks = networksOf(manifest);
  const named = networks.map((name) => `\`${name}\` is ${MADE_OF[name]}`);
  return `# Predictor of ${model.name}

This predictor names the experts that ${model.name} will use before it runs. Serve with it: \`sida serve --predictor\` and this directory.
Weights \`${model.weights}\`, MoE layers ${manifest.layers.join(', ')}, ${manifest.experts} experts each, ${manifest.topK} per token.

## How often it is right

${whatCounts(manifest.topK)}, ${tokens} held-out ${manifest.layers[0]!.split('.')[0]} tokens:

${tableOf(['layer', ...Object.keys(heldOut)], heldOutRows(manifest))}

${named.join(', ')}, \`token\` the most frequent experts of each token id. \`--hash-function\` chooses one; \`auto\` takes \`${manifest.default}\`.

## The traces

${trainedOn.map((trace) => `    ${traceCommandOf(trace)}    # ${trace.sequences} sequences, ${trace.tokens} tokens`).join('\n')}

${networks.map((network) => networkSection(network, manifest.networks[network]!, minutes[network])).join('\n')}`;
}
