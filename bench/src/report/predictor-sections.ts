/** Quality of predictions, and how much routing depends on the rest of the input. */

import { SWITCH_MINI } from '../scenarios/models.js';
import type { DependencyReport } from '../studies/dependency.js';
import type { TaskFidelity } from '../studies/task-fidelity.js';
import type { BenchFile } from './bench-file.js';
import { lineChart } from './charts.js';
import { DASH, dataTitle, percent, times } from './format.js';
import { alphaErrorOf, hitsOf } from './hits.js';
import { PAPER_FIDELITY, PAPER_HITS, PAPER_PERPLEXITY, SIDA } from './paper.js';
import { QUALITY_HEAD, qualityCells, taskQuality, taskTitle, textQualities } from './quality.js';
import type { Section } from './section.js';

const TASKS = ['sst2', 'mrpc', 'multirc'] as const;
const OUR_TASKS = [...TASKS, 'words'] as const;
const ofHundred = (value: number | undefined) => (value === undefined ? DASH : `${value.toFixed(2)} %`);

export function predictorSections({ fidelity, dependency }: BenchFile): Section[] {
  const tasks = fidelity.filter(({ data }) => data !== 'text');
  const texts = fidelity.filter(({ data }) => data === 'text');
  return [
    ...(tasks.length > 0 ? [hitsSection(fidelity), fidelitySection(tasks)] : []),
    ...(texts.length > 0 ? [perplexitySection(texts)] : []),
    ...dependency.map(dependencySection),
  ];
}

function hitsSection(studies: readonly TaskFidelity[]): Section {
  const [severalChosen, oneChosen] = [true, false].map((several) =>
    studies.filter(({ hitNames = ['top-1'] }) => (hitNames[0] !== 'top-1') === several),
  ) as [TaskFidelity[], TaskFidelity[]];
  const tasks = oneChosen.filter(({ data }) => data !== 'text');
  const paper = Object.entries(PAPER_HITS).flatMap(([model, hits]) =>
    TASKS.map((task) => [
      `${model} fine-tuned, paper`,
      dataTitle(task),
      ...[DASH, DASH, DASH],
      ofHundred(hits[task]),
      DASH,
    ]),
  );
  const ours = OUR_TASKS.flatMap((task) => {
    const found = tasks.find(({ data }) => data === task);
    return found === undefined ? [] : hitRows(found, [0, 2]);
  });
  const head = ['model', 'task', 'hash function', 'inputs'];
  const error = 'error of α, of its mean';
  return {
    id: 'paper-hits',
    title: 'Hash hits',
    beside: `${SIDA}, table 5`,
    about: [],
    tables: [
      { head: [...head, 'top-1', 'top-3', error], rows: [...paper, ...ours] },
      ...severalChosen.map((study) => ({
        head: [...head, ...study.hitNames!, error],
        rows: hitRows(study, [0, 1]),
      })),
    ],
    reading: ['α is the factor of an expert’s output; its error is told where the first expert is right.'],
  };
}

/** A row for each hash function. */
function hitRows(
  { model = SWITCH_MINI.name, data, inputs, layers }: TaskFidelity,
  ranks: number[],
): string[][] {
  return Object.keys(layers[0]?.functions ?? {}).map((name) => [
    model,
    dataTitle(data),
    `\`${name}\``,
    String(inputs),
    ...ranks.map((rank) => percent(hitsOf(layers, name, rank), 2)),
    percent(alphaErrorOf(layers, name)),
  ]);
}

const CONTROLS_READING =
  'Random tables rename the experts of each layer; experts of zeros add nothing. `cannot tell`: over these inputs the 95 % interval of exact less zeros does not lie above 0, so that predictions could not fail.';

function fidelitySection(tasks: readonly TaskFidelity[]): Section {
  const paper = Object.entries(PAPER_FIDELITY).flatMap(([model, { exact, predicted, fidelity }]) =>
    TASKS.map((task) => [
      `${model} fine-tuned, paper`,
      taskTitle(task),
      DASH,
      ofHundred(exact[task]),
      ofHundred(predicted[task]),
      ...[DASH, DASH, DASH],
      ofHundred(fidelity[task]),
      DASH,
    ]),
  );
  const ours = OUR_TASKS.flatMap((task) => {
    const found = tasks.find(({ data }) => data === task);
    const quality = found && taskQuality(found);
    if (!quality) return [];
    const { exact, predicted, agreement } = quality;
    return [
      [
        found.model ?? SWITCH_MINI.name,
        taskTitle(task),
        ...qualityCells(quality, (value) => percent(value, 2)),
        percent(exact && predicted !== null ? predicted / exact : null, 2),
        percent(agreement, 2),
      ],
    ];
  });
  return {
    id: 'paper-fidelity',
    title: 'Fidelity of predicted routing',
    beside: `${SIDA}, table 4`,
    about: [],
    tables: [
      {
        head: ['model', 'task', ...QUALITY_HEAD, 'fidelity', 'same label as exact'],
        rows: [...paper, ...ours],
      },
    ],
    reading: [
      CONTROLS_READING,
      'Exact mode, the default, has none of this loss: its answers do not depend on predictions.',
    ],
  };
}

function perplexitySection(texts: readonly TaskFidelity[]): Section {
  const paper = Object.entries(PAPER_PERPLEXITY).map(([model, [exact, predicted]]) => [
    `${model} on C4, paper`,
    DASH,
    exact.toFixed(2),
    predicted.toFixed(2),
    ...[DASH, DASH, DASH],
    times(predicted / exact),
  ]);
  const ours = texts.flatMap((text) =>
    textQualities(text).map((quality) => [
      `${text.model ?? SWITCH_MINI.name} on WikiText-2, k = ${quality.k}`,
      ...qualityCells(quality, (value) => value.toFixed(2)),
      times(quality.ratio),
    ]),
  );
  return {
    id: 'paper-perplexity',
    title: 'Perplexity of predicted routing',
    beside: `${SIDA}, table 3`,
    about: [],
    tables: [{ head: ['perplexity', ...QUALITY_HEAD, 'ratio'], rows: [...paper, ...ours] }],
    reading: [
      CONTROLS_READING,
      'Ours: span corruption over pieces of text for a model with an encoder, the text as it is for a decoder, by models a thousandth of the size.',
    ],
  };
}

function dependencySection({ model, data, inputs, layers, corruption, distance }: DependencyReport): Section {
  const places = distance.map(({ least, most }) => ({
    x: most > 1e6 ? 2 * least : most,
    name: most > 1e6 ? `≥ ${least}` : least === most ? String(least) : `${least}–${most}`,
  }));
  const head = (first: string) => [first, 'inputs', 'tokens looked at', ...layers];
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
          String(inputs),
          String(probes),
          ...changed.map((value) => percent(value)),
        ]),
      },
      {
        caption: 'The same, one token replaced, by distance',
        head: head('distance'),
        rows: distance.map(({ probes, changed }, d) => [
          places[d]!.name,
          String(inputs),
          String(probes),
          ...changed.map((value) => percent(value)),
        ]),
      },
    ],
    reading: [
      'The paper reports that a token’s expert depends on few other tokens; its figures 6 and 7 read off between one and four. Where much changes here, a predictor has to read the context, and a table of tokens alone must miss.',
    ],
  };
}
