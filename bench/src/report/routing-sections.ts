/** Experts that inputs need, from the true routing. Nothing is timed. */

import type { BenchFile } from './bench-file.js';
import { barChart, lineChart } from './charts.js';
import { bytes, dataTitle, percent } from './format.js';
import { modelTitle } from './groups.js';
import { SIDA } from './paper.js';
import type { Section } from './section.js';

/** Series that are models or data sets, not systems. */
const PLAIN_COLOUR = {
  scale: {
    range: [
      ...['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#000000', '#8c564b'],
      ...['#999999', '#6a51a3', '#7f7f00', '#17becf', '#e377c2', '#b8860b', '#f0e442', '#1b9e77'],
    ],
  },
};

export function routingSections(file: BenchFile): Section[] {
  return [...lengthSections(file), ...savingSection(file), ...missSections(file)];
}

function entries({ models }: BenchFile) {
  return models.flatMap(({ model, bytes: size, data }) =>
    Object.entries(data).map(([name, facts]) => ({ model: model.name, name, facts, size })),
  );
}

function lengthSections(file: BenchFile): Section[] {
  const points = entries(file).flatMap(({ model, name, facts, size }) =>
    facts.lengths.map((length) => ({
      length,
      series: `${model}, ${dataTitle(name)}`,
      effective:
        (size.dense + size.routers + length.needed * size.experts) /
        (size.dense + size.routers + size.experts),
    })),
  );
  if (points.length === 0) return [];
  const x = { title: 'tokens of the input (mean of a class of lengths)', scale: { zero: true } };
  return [
    {
      id: 'effective-memory',
      title: 'Effective memory against input length',
      beside: `${SIDA}, figure 2`,
      about: [
        'The share of the model’s bytes that one input touches: dense weights, and the experts it is routed to.',
      ],
      chart: lineChart({
        title: 'Effective memory: share of the model’s bytes that one input uses',
        subtitle: 'true routing; Switch-base shapes have random weights',
        rows: points.map(({ length, series, effective }) => ({
          x: length.tokens,
          y: 100 * effective,
          series,
        })),
        x,
        y: { title: '% of the model’s bytes', scale: { domain: [0, 100] } },
        legend: 'model and inputs',
        colour: PLAIN_COLOUR,
      }),
      tables: [],
      reading: [],
    },
    {
      id: 'idle-experts',
      title: 'Idle experts against input length',
      beside: `${SIDA}, figure 4`,
      about: [],
      chart: lineChart({
        title: 'Experts of the encoder that one input leaves idle',
        subtitle: 'true routing; Switch-base shapes have random weights',
        rows: points.map(({ length, series }) => ({
          x: length.tokens,
          y: 100 * (1 - length.neededOfEncoder),
          series,
        })),
        x,
        y: { title: '% of the encoder’s experts', scale: { domain: [0, 100] } },
        legend: 'model and inputs',
        colour: PLAIN_COLOUR,
      }),
      tables: [],
      reading: [],
    },
  ];
}

function savingSection(file: BenchFile): Section[] {
  const rows = entries(file).map(({ model, name, facts, size }) => {
    const whole = size.dense + size.routers + size.experts;
    const used = size.dense + size.routers + facts.needed * size.experts;
    return { model, name, facts, whole, used };
  });
  if (rows.length === 0) return [];
  return [
    {
      id: 'memory-saving',
      title: 'Memory saving by data set',
      beside: `${SIDA}, figure 8`,
      about: [
        'What would not have to be on the device, if it held the experts of one input and nothing else of them; weights alone.',
      ],
      chart: barChart({
        title: 'Weights that one input does not need',
        subtitle: 'mean over inputs, true routing; Switch-base shapes have random weights',
        rows: rows.map(({ model, name, whole, used }) => ({
          group: model,
          series: dataTitle(name),
          value: 100 * (1 - used / whole),
        })),
        groupTitle: 'model',
        valueTitle: '% of the model’s bytes saved',
        legend: 'inputs',
        colour: PLAIN_COLOUR,
      }),
      tables: [
        {
          head: [
            'model',
            'task',
            'inputs',
            'mean tokens',
            'experts needed',
            'weights',
            'needed by one input',
            'saved',
          ],
          rows: rows.map(({ model, name, facts, whole, used }) => [
            modelTitle(model),
            dataTitle(name),
            String(facts.inputs),
            (facts.tokens / facts.inputs).toFixed(0),
            percent(facts.needed),
            bytes(whole),
            bytes(Math.round(used)),
            percent(1 - used / whole),
          ]),
        },
      ],
      reading: [
        'The paper’s bar reaches 80 % at most (Switch-base-256, short inputs); its values by data set could not be looked up.',
      ],
    },
  ];
}

function missSections(file: BenchFile): Section[] {
  return entries(file).map(({ model, name, facts }) => ({
    id: `misses-${model}-${name}`,
    title: `Miss rate against cache size: ${modelTitle(model)}, ${dataTitle(name)}`,
    beside: '"Towards MoE Deployment", figure 12',
    about: [
      'Policies without prediction, replayed over the true routing, against Belady’s rule with the whole future in view.',
    ],
    chart: lineChart({
      title: 'Misses by cache size',
      subtitle: `${modelTitle(model)}, ${dataTitle(name)}, ${facts.inputs} inputs, one a batch; replay of the true routing`,
      rows: facts.misses.map(({ share, policy, misses }) => ({
        x: 100 * share,
        y: 100 * misses,
        series: policy,
      })),
      x: { title: 'share of the experts that the cache holds, %', scale: { domain: [0, 100] } },
      y: { title: 'experts needed and not there, %', scale: { domain: [0, 100] } },
      legend: 'policy',
    }),
    tables: [],
    reading: [
      'First loads of an expert are misses of every policy. `static-hot` learns from the first fifth of the inputs.',
    ],
  }));
}
