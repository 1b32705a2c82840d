/** README.md of a predictor directory: how the predictor was made and how often it is right. */
import { shellQuote } from '../../text/shell-quote.js';
import { hitNames } from '../hit-ranks.js';
import type { LayerHitShares, PredictorManifest } from './manifest.js';
import type { NetworkState } from './network-state.js';
import { TRAINING_OPTIONS, type TrainingOptionName } from './options.js';

const ENDINGS = {
  epochs: 'all epochs done',
  patience: 'no better for as long as the patience',
  minutes: 'the time was up',
} as const;

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

/** The command that reproduces this predictor. */
function commandOf(manifest: PredictorManifest): string {
  const flags = (Object.keys(TRAINING_OPTIONS) as TrainingOptionName[]).flatMap((name) => {
    const { flag, paper } = TRAINING_OPTIONS[name];
    const value = manifest.options[name];
    if (value === paper) return [];
    if (typeof value === 'boolean') return [value ? `--${flag}` : `--no-${flag}`];
    return [`--${flag} ${value}`];
  });
  const { networks, 'held-out': heldOut } = manifest.run;
  const only = Array.isArray(networks) && networks.length === 1 ? [`--only ${networks[0]}`] : [];
  const measured = Array.isArray(heldOut) ? ['--held-out HELD_OUT_TRACE…'] : [];
  return ['sida train TRACE… --out P', ...measured, ...only, ...flags].join(' ');
}

function whatCounts(topK: number): string {
  if (topK === 1) return 'Share of tokens whose expert is the first named / among the first three';
  return `Share of the routers' experts that are among the first ${topK} / ${2 * topK} named (${hitNames(topK).join(' / ')})`;
}

export function predictorCard(
  manifest: PredictorManifest,
  networks: readonly { network: string; state: NetworkState }[],
): string {
  const { model, trainedOn, options, heldOut } = manifest;
  const tokens = Object.values(heldOut)[0]?.find(({ layer }) => layer === manifest.layers[0])?.tokens ?? 0;
  const trained = networks.map(({ network, state }) => {
    const best = state.evaluations.findLast((evaluation) => evaluation.best);
    return [
      network,
      String(state.step),
      state.evaluations.at(-1)?.epoch.toFixed(2) ?? '',
      (state.seconds / 60).toFixed(1),
      String(best?.step ?? ''),
      ENDINGS[state.ending ?? 'epochs'],
    ];
  });
  return `# Predictor of ${model.name}

This predictor names the experts that ${model.name} will use before it runs. Serve with it: \`sida serve --predictor\` and this directory.
Weights \`${model.weights}\`, MoE layers ${manifest.layers.join(', ')}, ${manifest.experts} experts each, ${manifest.topK} per token.

## How often it is right

${whatCounts(manifest.topK)}, ${tokens} held-out ${manifest.layers[0]!.split('.')[0]} tokens:

${tableOf(['layer', ...Object.keys(heldOut)], heldOutRows(manifest))}

\`lstm\` is the networks, \`token\` the most frequent experts of each token id. [curve.svg](curve.svg) shows loss and hit rates over the steps, and \`training.jsonl\` holds every measurement.

## How it was made

${trainedOn.map((trace) => `    ${traceCommandOf(trace)}    # ${trace.sequences} sequences, ${trace.tokens} tokens`).join('\n')}
    ${commandOf(manifest)}

${tableOf(['network', 'steps', 'epochs', 'minutes', 'best step', 'ended because'], trained)}

${tableOf(
  ['option', 'value'],
  (Object.keys(TRAINING_OPTIONS) as TrainingOptionName[]).map((name) => [
    `\`--${TRAINING_OPTIONS[name].flag}\``,
    String(options[name]),
  ]),
)}
`;
}
