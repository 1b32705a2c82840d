/** Quality of predictions, and how much routing depends on the rest of the input. */

import type { LayerReport } from '../../../dist/evaluation/evaluate.js';
import { NETWORK_NAMES } from '../../../dist/protocol/predictor-messages.js';
import type { DependencyReport } from '../studies/dependency.js';
import type { TaskFidelity } from '../studies/task-fidelity.js';
import type { BenchFile } from './bench-file.js';
import { lineChart } from './charts.js';
import { DASH, dataTitle, percent, times } from './format.js';
import { PAPER_FIDELITY, PAPER_HITS, PAPER_PERPLEXITY, SIDA } from './paper.js';
import type { Section } from './section.js';

const FUNCTIONS = [...NETWORK_NAMES, 'token'];
const TASKS = ['sst2', 'mrpc', 'multirc'] as const;
const ofHundred = (value: number | undefined) => (value === undefined ? DASH : `${value.toFixed(2)} %`);

export function predictorSections({ fidelity, dependency }: BenchFile): Section[] {
  const tasks = fidelity.filter(({ data }) => data !== 'text');
  const text = fidelity.find(({ data }) => data === 'text');
  return [
    ...(tasks.length > 0 ? [hitsSection(tasks), fidelitySection(tasks)] : []),
    ...(text ? [perplexitySection(text)] : []),
    ...dependency.map(dependencySection),
  ];
}

/** Token-weighted mean over layers of the top-3 hits. */
function hitsOf(layers: readonly LayerReport[], name: string): number | undefined {
  let [tokens, hits] = [0, 0];
  for (const { tokens: count, functions } of layers) {
    const own = functions[name];
    if (own === undefined) return undefined;
    tokens += count;
    hits += count * own.hits[2]!;
  }
  return hits / tokens;
}

function hitsSection(tasks: readonly TaskFidelity[]): Section {
  const ours = (name: string) =>
    TASKS.map((task) => {
      const found = tasks.find(({ data }) => data === task);
      return percent(found && hitsOf(found.layers, name), 2);
    });
  return {
    id: 'paper-hits',
    title: 'Hash hits',
    beside: `${SIDA}, table 5`,
    about: [],
    tables: [
      {
        head: ['top-3 hash hits', ...TASKS.map(dataTitle)],
        rows: [
          ...Object.entries(PAPER_HITS).map(([model, hits]) => [
            `${model} fine-tuned, paper`,
            ...TASKS.map((task) => ofHundred(hits[task])),
          ]),
          ...FUNCTIONS.filter((name) => tasks.some(({ layers }) => hitsOf(layers, name) !== undefined)).map(
            (name) => [`switch-mini, \`${name}\``, ...ours(name)],
          ),
        ],
      },
    ],
    reading: [
      `Ours: ${tasks.map(({ data, inputs }) => `${inputs} inputs of ${dataTitle(data)}`).join(', ')}.`,
    ],
  };
}

function fidelitySection(tasks: readonly TaskFidelity[]): Section {
  const measured = TASKS.map((task) => {
    const labels = tasks.find(({ data }) => data === task)?.labels;
    if (!labels) return undefined;
    const predicted = labels.predicted.find(({ k }) => k === (task === 'sst2' ? 1 : 3))!;
    const key = task === 'sst2' ? 'accuracy' : 'f1';
    return { exact: labels.exact[key], predicted: predicted[key], agreement: predicted.agreement };
  });
  type Own = NonNullable<(typeof measured)[number]>;
  const row = (name: string, value: (own: Own) => number | null): string[] => [
    name,
    ...measured.map((own) => percent(own && value(own), 2)),
  ];
  const paper = Object.entries(PAPER_FIDELITY).flatMap(([model, figures]) =>
    (['exact', 'predicted', 'fidelity'] as const).map((kind) => [
      { exact: `${model} fine-tuned, paper`, predicted: '… routed by predictions', fidelity: '… fidelity' }[
        kind
      ],
      ...TASKS.map((task) => ofHundred(figures[kind][task])),
    ]),
  );
  return {
    id: 'paper-fidelity',
    title: 'Fidelity of predicted routing',
    beside: `${SIDA}, table 4`,
    about: [],
    tables: [
      {
        head: ['', 'SST-2, accuracy, k = 1', 'MRPC, F1, k = 3', 'MultiRC, F1, k = 3'],
        rows: [
          ...paper,
          row('switch-mini, its routers', ({ exact }) => exact),
          row('… routed by predictions', ({ predicted }) => predicted),
          row('… fidelity', ({ exact, predicted }) =>
            exact === null || predicted === null ? null : predicted / exact,
          ),
          row('… same label as exact mode', ({ agreement }) => agreement),
        ],
      },
    ],
    reading: ['Exact mode, the default, has none of this loss: its answers do not depend on predictions.'],
  };
}

function perplexitySection({ perplexity, inputs }: TaskFidelity): Section {
  const paper = Object.entries(PAPER_PERPLEXITY).map(([model, [exact, predicted]]) => [
    `${model} on C4, paper`,
    exact.toFixed(2),
    predicted.toFixed(2),
    times(predicted / exact),
  ]);
  const ours = (perplexity?.predicted ?? []).map(({ k, perplexity: own, ratio }) => [
    `switch-mini on WikiText-2, k = ${k}`,
    perplexity!.exact.toFixed(2),
    own?.toFixed(2) ?? DASH,
    times(ratio),
  ]);
  return {
    id: 'paper-perplexity',
    title: 'Perplexity of predicted routing',
    beside: `${SIDA}, table 3`,
    about: [],
    tables: [
      { head: ['perplexity', 'the model’s routers', 'predicted', 'ratio'], rows: [...paper, ...ours] },
    ],
    reading: [`Ours: span corruption over ${inputs} pieces of text by a model a thousandth of the size.`],
  };
}

function dependencySection({ model, data, inputs, layers, corruption, distance }: DependencyReport): Section {
  const places = distance.map(({ least, most }) => ({
    x: most > 1e6 ? 2 * least : most,
    name: most > 1e6 ? `≥ ${least}` : least === most ? String(least) : `${least}–${most}`,
  }));
  const head = (first: string) => [first, 'tokens looked at', ...layers];
  return {
    id: `dependency-${model}-${data}`,
    title: `How much a token’s expert depends on the others: ${model}, ${dataTitle(data)}`,
    beside: `${SIDA}, figures 6 and 7`,
    about: [
      '`sida dependency`: other tokens of an input are replaced by random words of the data, and the tokens left alone are looked at: how many go to another expert then?',
    ],
    chart: {
      hconcat: [
        lineChart({
          title: 'A share of the other tokens replaced',
          subtitle: `${model}, ${dataTitle(data)}, ${inputs} inputs`,
          rows: corruption.flatMap(({ share, changed }) =>
            changed.map((value, i) => ({ x: 100 * share, y: 100 * value, series: layers[i]! })),
          ),
          x: { title: 'other tokens replaced, %', scale: { domain: [0, 100] } },
          y: { title: 'routed elsewhere, %', scale: { domain: [0, 100] } },
          legend: 'MoE layer',
          colour: {},
        }),
        lineChart({
          title: 'One token replaced',
          subtitle: 'by its distance (log scale)',
          rows: distance.flatMap(({ changed }, d) =>
            changed.map((value, i) => ({ x: places[d]!.x, y: 100 * value, series: layers[i]! })),
          ),
          x: { title: 'distance, tokens', scale: { type: 'log', base: 2 }, values: places.map(({ x }) => x) },
          y: { title: 'routed elsewhere, %', scale: { zero: true } },
          legend: 'MoE layer',
          colour: {},
        }),
      ].map((chart) => ({ ...chart, width: 300, height: 240 })),
    } as Section['chart'] & object,
    tables: [
      {
        caption: 'Share of tokens routed to another expert, by the share of other tokens replaced',
        head: head('replaced'),
        rows: corruption.map(({ share, probes, changed }) => [
          percent(share, 0),
          String(probes),
          ...changed.map((value) => percent(value)),
        ]),
      },
      {
        caption: 'The same, one token replaced, by distance',
        head: head('distance'),
        rows: distance.map(({ probes, changed }, d) => [
          places[d]!.name,
          String(probes),
          ...changed.map((value) => percent(value)),
        ]),
      },
    ],
    reading: [
      'The paper reports that a token’s expert depends on few other tokens; its curves could not be looked up. Where much changes here, a predictor has to read the context, and a table of tokens alone must miss.',
    ],
  };
}
