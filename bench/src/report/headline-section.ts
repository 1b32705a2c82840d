/** Ours beside what predicts nothing, and the SiDA paper's headline ratios beside ours: same budget, same machine. */
import { LOOKAHEAD } from '../scenarios/scenarios.js';
import { PREDICTING, type SystemName } from '../scenarios/systems.js';
import { type BenchFile, perSecond } from './bench-file.js';
import { type ComparedRow, comparedRows } from './compared-rows.js';
import { DASH, dataTitle, linkTitle, percent, shareName, times } from './format.js';
import { groupsOf, inputsText, modelTitle, systemTitle } from './groups.js';
import { HEADLINES, SIDA } from './paper.js';
import { beside, bytesOver, overSystem } from './ratios.js';
import type { Section, Table } from './section.js';

/** Experts on the device in the rows beside the paper. */
const SHARE = 0.2;
/** What predicts, and wrong tables of the same size. */
const SHOWN: readonly SystemName[] = [...PREDICTING, 'token', 'shuffled'];

export function headlineSection(file: BenchFile): Section {
  const rows = comparedRows(file, SHOWN);
  return {
    id: 'headlines',
    title: 'Headline ratios: same budget, same machine',
    beside: SIDA,
    about: [
      [
        'Systems that predict nothing come first: on-demand LRU, and the default settings with `--predictor none`.',
        'The baseline of the paper moves whole layers under the memory limit; ours is `layer-streaming`.',
        '`lstm`, with the paper’s network, and `attention` answer exactly, `predicted` routes by prediction, and',
        '`paper` is the paper’s system: predicted routing and FIFO. `token` names what each token needed before,',
        '`shuffled` is the control with wrong tables.',
      ].join(' '),
    ],
    tables: [
      { caption: 'Measured here, one input a batch', head: HEAD, rows: rows.map(rowOf) },
      {
        caption: 'As the paper prints them',
        head: ['what', 'paper'],
        rows: HEADLINES.map(({ what, value }) => [what, value]),
      },
    ],
    reading: [
      'Throughput and latency: the paper measures GPUs with experts in host memory behind PCIe; here a CPU computes and experts come from disk or over a simulated link, which each row names.',
      'Models: the paper’s are fine-tuned checkpoints; Switch-base shapes here have random weights, whose routing has less structure to learn and spreads over more experts.',
      'Memory saved: ours counts the whole device (dense weights, KV cache and workspace included) against the resident run; the paper counts weights.',
      'Answers: the paper routes by prediction and loses accuracy; with `lstm` and `attention` the model’s routers decide and answers are those of the resident run, bit for bit.',
    ],
  };
}

const HEAD = [
  'model',
  'task',
  'link',
  'budget',
  'system',
  'inputs',
  'throughput over on-demand LRU',
  'throughput over `--predictor none`',
  'bytes over LRU',
  'throughput over layer streaming',
  'latency, share of layer streaming',
  'device memory saved',
  'throughput, share of resident',
];

/** The paper's system and ours on the paper's task, by the experts of a layer, one input a batch. */
export function paperSystemsTable(file: BenchFile): Table {
  const rows = comparedRows(file, [...SHOWN, 'replay']).filter(
    ({ measurement: { scenario } }) =>
      scenario.data === 'sst2' && scenario.share === SHARE && scenario.lookahead === LOOKAHEAD,
  );
  return { head: HEAD, rows: rows.map(rowOf) };
}

/** Batches of several inputs: what predicts, and what does not. */
export function batchesTable(file: BenchFile): Table {
  const rows = groupsOf(file.measurements)
    .filter(({ scenario }) => scenario.batch > 1 && scenario.arrivals === undefined)
    .flatMap((group) =>
      group.measurements
        .filter(({ scenario }) => scenario.share < 1)
        .map((measurement) => {
          const [model, task, link, budget, ...rest] = rowOf({ measurement, group });
          return [model!, task!, link!, String(group.scenario.batch), budget!, ...rest];
        }),
    );
  return { head: HEAD.toSpliced(3, 0, 'batch'), rows };
}

function rowOf({ measurement, group }: ComparedRow): string[] {
  const { scenario } = measurement;
  const over = (other: SystemName) => times(overSystem(measurement, other, group));
  const streaming = beside(measurement, 'layer-streaming', group);
  const { resident } = group;
  return [
    modelTitle(scenario.model),
    dataTitle(scenario.data),
    linkTitle(scenario),
    shareName(scenario.share),
    systemTitle(measurement),
    inputsText(measurement),
    over('lru'),
    over('none'),
    times(bytesOver(measurement, 'lru', group)),
    over('layer-streaming'),
    streaming ? percent(measurement.p50Ms / streaming.p50Ms, 0) : DASH,
    resident ? percent(1 - measurement.budgetBytes / resident.budgetBytes, 0) : DASH,
    resident ? times(perSecond(measurement) / perSecond(resident)) : DASH,
  ];
}
