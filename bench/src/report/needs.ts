/** How much of a model an input needs, from the true routing, and how large models are. Nothing is timed. */
import { modelNamed, parametersOf } from '../scenarios/models.js';
import type { BenchFile } from './bench-file.js';
import { lineChart } from './charts.js';
import { bytes, DASH, dataTitle, modelTitle, percent } from './format.js';
import { type Section, SIDA } from './section.js';

export function needsSection({ models }: Pick<BenchFile, 'models'>): Section {
  const all = models.flatMap(({ model, bytes: size, data }) =>
    Object.entries(data).map(([name, facts]) => {
      const [dense, whole] = [size.dense + size.routers, size.dense + size.routers + size.experts];
      const used = (needed: number) => dense + needed * size.experts;
      return { name: model.name, data: dataTitle(name), facts, whole, used };
    }),
  );
  const classes = all.flatMap(({ name, data, facts, whole, used }) =>
    facts.lengths.map((length) => [
      modelTitle(name),
      data,
      `${length.least}–${length.most}`,
      String(length.inputs),
      percent(length.needed),
      percent(1 - length.neededOfEncoder),
      percent(used(length.needed) / whole),
    ]),
  );
  const means = all.map(({ name, data, facts, whole, used }) => [
    modelTitle(name),
    data,
    String(facts.inputs),
    (facts.tokens / facts.inputs).toFixed(0),
    percent(facts.needed),
    bytes(whole),
    bytes(used(facts.needed)),
    percent(1 - used(facts.needed) / whole),
  ]);
  return {
    id: 'needs',
    title: 'How much of a model one input needs',
    beside: `${SIDA}, figures 2, 4 and 8; its figure 8 reaches 80 % at most`,
    about: 'True routing; weights alone. Switch-base shapes have random weights.',
    tables: [
      {
        caption: 'Mean of all inputs (figure 8)',
        head: 'model | task | inputs | mean tokens | experts needed | weights | needed by one input | saved',
        rows: means,
      },
      {
        caption: 'By length of the input (figures 2 and 4)',
        head: 'model | task | tokens | inputs | experts needed | idle of the encoder | effective memory, of all bytes',
        rows: classes,
      },
    ],
    chart: lineChart({
      title: 'Experts of the encoder that one input leaves idle',
      subtitle: 'true routing; Switch-base shapes have random weights',
      rows: all.flatMap(({ name, data, facts }) =>
        facts.lengths.map(({ tokens, neededOfEncoder }) => ({
          x: tokens,
          y: 100 * (1 - neededOfEncoder),
          series: `${name}, ${data}`,
        })),
      ),
      x: 'tokens of the input (mean of a class of lengths)',
      y: '% of the encoder’s experts',
    }),
  };
}

/** By number of experts: the paper's GB (2³⁰ bytes) of a whole model and of its MoE layers. */
const PAPER_MEMORY = {
  8: '2.298 / 1.7932',
  64: '14.112 / 13.608',
  128: '27.614 / 27.11',
  256: '54.62 / 54.114',
};

/** By arithmetic from the shapes, at the paper's element type; and of the packs that were measured. */
export function memorySection({ models }: Pick<BenchFile, 'models'>): Section {
  const computed = Object.entries(PAPER_MEMORY).map(([experts, paper]) => {
    const shape = { ...modelNamed('switch-base-8-f32').shape, vocab: 32128, experts: Number(experts) };
    const { all, experts: sparse } = parametersOf(shape);
    return [
      `Switch-base-${experts}, float32, computed`,
      bytes(4 * all),
      bytes(4 * sparse),
      percent(sparse / all),
      paper,
    ];
  });
  const packed = models.map(({ model, bytes: size }) => {
    const all = size.dense + size.routers + size.experts;
    const name = `${modelTitle(model.name)}, experts ${model.dtype}, as packed`;
    return [name, bytes(all), bytes(size.experts), percent(size.experts / all), DASH];
  });
  const head = 'model | weights | of them experts | share | the paper, GB';
  return {
    id: 'memory',
    title: 'Memory by model, and the share of its experts',
    beside: `${SIDA}, table 2`,
    tables: [{ head, rows: [...computed, ...packed] }],
  };
}
