/** What predictions are worth in answers, beside tables 3, 4 and 5 of SiDA-MoE. */
import type { LayerReport } from '../../../dist/evaluation/evaluate.js';
import { shareOfWay } from '../../../dist/evaluation/paired-difference.js';
import type { TaskFidelity } from '../studies/studies.js';
import { DASH, dataTitle, percent, times } from './format.js';
import { type Section, SIDA } from './section.js';

const TASKS = ['sst2', 'mrpc', 'multirc'] as const;
type PaperRow = readonly [sst2: number, mrpc: number, multirc: number];

/** Per cent, as printed: top-3 hash hits. */
const PAPER_HITS: Record<string, PaperRow> = {
  'Switch-base-8': [99.0, 97.41, 91.74],
  'Switch-base-128': [98.78, 98.65, 90.49],
};

/** Per cent, as printed: accuracy on SST-2, F1 on MRPC and MultiRC. */
const PAPER_FIDELITY: Record<string, Record<'exact' | 'predicted' | 'fidelity', PaperRow>> = {
  'Switch-base-8': {
    exact: [92.2, 89.14, 56.7],
    predicted: [90.59, 86.91, 56.11],
    fidelity: [98.25, 97.49, 98.95],
  },
  'Switch-base-128': {
    exact: [93.57, 89.66, 59.95],
    predicted: [87.04, 83.01, 55.49],
    fidelity: [93.02, 92.59, 92.56],
  },
};

/** Perplexity on C4 as printed, with the model's routers and with predicted routing. */
const PAPER_PERPLEXITY: Record<string, [exact: number, predicted: number]> = {
  'Switch-base-8': [6.68, 18.49],
  'Switch-base-64': [4.93, 11.84],
  'Switch-base-128': [4.86, 11.73],
  'Switch-base-256': [4.59, 8.11],
};

/** The measure of each task, and its experts for a token. `words` is ours; the other tasks are the paper's. */
const MEASURES = {
  sst2: { key: 'accuracy', k: 1, name: 'accuracy' },
  mrpc: { key: 'f1', k: 3, name: 'F1' },
  multirc: { key: 'f1', k: 3, name: 'F1' },
  words: { key: 'accuracy', k: 1, name: 'accuracy' },
} as const;

const ofHundred = (value: number) => `${value.toFixed(2)} %`;
const isTask = <T extends { data: string }>(study: T): study is T & { data: keyof typeof MEASURES } =>
  study.data !== 'text';

export function fidelitySections(studies: readonly TaskFidelity[]): Section[] {
  if (studies.length === 0) return [];
  return [hitsSection(studies), tasksSection(studies), perplexitySection(studies)];
}

function hitsSection(studies: readonly TaskFidelity[]): Section {
  const several = ({ hitNames }: TaskFidelity) => hitNames[0] !== 'top-1';
  const paper = Object.entries(PAPER_HITS).flatMap(([model, hits]) =>
    TASKS.map((task, i) => [`${model}, paper`, dataTitle(task), DASH, DASH, DASH, ofHundred(hits[i]!), DASH]),
  );
  const one = studies.filter((study) => isTask(study) && !several(study));
  const head = 'model | task | hash function | inputs';
  const error = 'error of α, of its mean';
  return {
    id: 'paper-hits',
    title: 'Hash hits',
    beside: `${SIDA}, table 5 (fine-tuned models)`,
    about: 'α is the factor of an expert’s output; its error counts where the first expert is right.',
    tables: [
      {
        head: `${head} | top-1 | top-3 | ${error}`,
        rows: [...paper, ...one.flatMap((study) => hitRows(study, [0, 2]))],
      },
      ...studies.filter(several).map((study) => ({
        head: [head, ...study.hitNames, error].join(' | '),
        rows: hitRows(study, [0, 1]),
      })),
    ],
  };
}

/** A row for each hash function. */
function hitRows({ model, data, inputs, layers }: TaskFidelity, ranks: number[]): string[][] {
  return Object.keys(layers[0]?.functions ?? {}).map((name) => [
    ...[model, dataTitle(data), `\`${name}\``, String(inputs)],
    ...ranks.map((rank) =>
      percent(
        meanOf(layers, name, (own) => own.hits[rank]!),
        2,
      ),
    ),
    percent(meanOf(layers, name, (own) => own.alphaError) / meanOf(layers, name, (_, { alpha }) => alpha)),
  ]);
}

/** Mean over layers, weighted by tokens; NaN where a layer has no value. */
function meanOf(
  layers: readonly LayerReport[],
  name: string,
  value: (own: LayerReport['functions'][string], layer: LayerReport) => number | null,
): number {
  let [tokens, sum] = [0, 0];
  for (const layer of layers) {
    tokens += layer.tokens;
    sum += layer.tokens * (value(layer.functions[name]!, layer) ?? Number.NaN);
  }
  return sum / tokens;
}

const QUALITY = 'inputs | exact | predicted | random tables | experts of zeros | way from zeros to exact';
const CONTROLS =
  'Random tables rename the experts of each layer; experts of zeros add nothing. `cannot tell`: the 95 % interval of exact less zeros does not lie above 0, so that predictions could not fail.';

interface Quality {
  inputs: number;
  exact: number;
  predicted: number | null;
  random: number | null;
  zeros: number | null;
  /** Whether the inputs tell exact from experts of zeros. */
  told: boolean;
}

function qualityCells({ inputs, exact, predicted, random, zeros, told }: Quality, show: (value: number) => string) {
  const way = zeros === null || predicted === null ? undefined : shareOfWay(predicted, zeros, exact, told);
  return [
    String(inputs),
    ...[exact, predicted, random, zeros].map((value) => (value === null ? DASH : show(value))),
    way === null ? 'cannot tell' : percent(way),
  ];
}

function tasksSection(studies: readonly TaskFidelity[]): Section {
  const title = (task: keyof typeof MEASURES) => `${dataTitle(task)}, ${MEASURES[task].name}, k = ${MEASURES[task].k}`;
  const paper = Object.entries(PAPER_FIDELITY).flatMap(([model, { exact, predicted, fidelity }]) =>
    TASKS.map((task, i) => [
      ...[`${model}, paper`, title(task), DASH, ofHundred(exact[i]!), ofHundred(predicted[i]!)],
      ...[DASH, DASH, DASH, ofHundred(fidelity[i]!), DASH],
    ]),
  );
  const ours = studies.filter(isTask).flatMap(({ model, data, inputs, labels }) => {
    const { key, k } = MEASURES[data];
    const predicted = labels?.predicted.find((own) => own.k === k);
    const [exact, figure] = [labels?.exact[key], predicted?.[key]];
    if (exact == null || predicted === undefined || figure == null) return [];
    const controls = { random: predicted.random[key], zeros: labels!.zeros[key], told: labels!.told };
    const cells = qualityCells({ inputs, exact, predicted: figure, ...controls }, (value) => percent(value, 2));
    return [[model, title(data), ...cells, percent(figure / exact, 2), percent(predicted.agreement, 2)]];
  });
  return {
    id: 'paper-fidelity',
    title: 'Fidelity of predicted routing',
    beside: `${SIDA}, table 4 (fine-tuned models)`,
    about: `${CONTROLS} Exact mode, the default, has none of this loss.`,
    tables: [{ head: `model | task | ${QUALITY} | fidelity | same label as exact`, rows: [...paper, ...ours] }],
  };
}

function perplexitySection(studies: readonly TaskFidelity[]): Section {
  const paper = Object.entries(PAPER_PERPLEXITY).map(([model, [exact, predicted]]) => [
    ...[`${model} on C4, paper`, DASH, exact.toFixed(2), predicted.toFixed(2), DASH, DASH, DASH],
    times(predicted / exact),
  ]);
  const ours = studies.flatMap(({ model, inputs, perplexity }) =>
    (perplexity?.predicted ?? []).map(({ k, perplexity: predicted, random, ratio }) => {
      const { exact, zeros, told } = perplexity!;
      const cells = qualityCells({ inputs, exact, predicted, random, zeros, told }, (value) => value.toFixed(2));
      return [`${model} on WikiText-2, k = ${k}`, ...cells, times(ratio)];
    }),
  );
  return {
    id: 'paper-perplexity',
    title: 'Perplexity of predicted routing',
    beside: `${SIDA}, table 3`,
    about: `${CONTROLS} Ours: span corruption over pieces of text for a model with an encoder, the text as it is for a decoder.`,
    tables: [{ head: `perplexity | ${QUALITY} | ratio`, rows: [...paper, ...ours] }],
  };
}
