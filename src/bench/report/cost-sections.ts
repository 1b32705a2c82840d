/** Where the time of a system goes, what a data type gives, how big models are. */

import { modelNamed, parametersOf } from '../models.js';
import { type BenchFile, type CellSummary, perSecond } from './bench-file.js';
import { barChart, lineChart } from './charts.js';
import { bytes, dataTitle, linkTitle, ms, percent, rate, shareName } from './format.js';
import { type Group, groupTitle, modelTitle, oneByOne, usualGroups } from './groups.js';
import { ELEPHANTS, ELEPHANTS_CLAIMS, SIDA } from './paper.js';
import type { Section } from './section.js';

const PARTS = {
  compute: 'computing',
  stall: 'waiting for experts',
  table: 'waiting for hash tables',
  rest: 'between passes',
} as const;
const PART_COLOUR = {
  scale: { domain: Object.values(PARTS), range: ['#0072b2', '#d55e00', '#e69f00', '#999999'] },
};

/** Milliseconds of one sentence by what they went into. */
function partsOf(cell: CellSummary): Record<keyof typeof PARTS, number> {
  const each = (seconds: number) => (1000 * seconds) / cell.sentences;
  const compute = each(cell.passSeconds - cell.stallSeconds);
  const stall = each(cell.stallSeconds);
  const table = each(cell.tableWaitSeconds);
  return { compute, stall, table, rest: Math.max(0, cell.wallMs / cell.sentences - compute - stall - table) };
}

export function breakdownSections(file: BenchFile): Section[] {
  return usualGroups(file.cells)
    .filter((group) => oneByOne(group) && group.cells.length > 2)
    .map(breakdown);
}

function breakdown(group: Group): Section {
  const shares = [...new Set(group.cells.map(({ scenario }) => scenario.share))].filter((share) => share < 1);
  const share = shares.includes(0.2) ? 0.2 : shares[0]!;
  const cells = group.cells.filter((cell) => cell.system === 'resident' || cell.scenario.share === share);
  const rows = cells.flatMap((cell) =>
    Object.entries(partsOf(cell)).map(([part, value]) => ({
      system: cell.system,
      part: PARTS[part as keyof typeof PARTS],
      value,
      order: Object.keys(PARTS).indexOf(part),
    })),
  );
  return {
    id: `breakdown-${group.key}`,
    title: `Where the time goes: ${groupTitle(group)}, ${shareName(share)}`,
    beside: `${SIDA}, figure 3`,
    about: [],
    chart: {
      width: 520,
      height: { step: 26 },
      title: {
        text: 'Time of one sentence by what it went into',
        subtitle: `${groupTitle(group)}; budget ${shareName(share)} (resident: 100 %)`,
      },
      data: { values: rows },
      mark: 'bar',
      encoding: {
        y: { field: 'system', type: 'nominal', sort: null, axis: { title: null } },
        x: { field: 'value', type: 'quantitative', axis: { title: 'milliseconds a sentence' } },
        color: { field: 'part', type: 'nominal', title: null, sort: null, ...PART_COLOUR },
        order: { field: 'order' },
      },
    } as Section['chart'] & object,
    tables: [
      {
        head: [
          'system',
          ...Object.values(PARTS),
          'MoE overhead: waiting ÷ all',
          'hash building, hidden behind passes',
        ],
        rows: cells.map((cell) => {
          const parts = partsOf(cell);
          const all = cell.wallMs / cell.sentences;
          return [
            cell.system,
            ...Object.values(parts).map((value) => `${ms(value)} ms`),
            percent((parts.stall + parts.table) / all),
            `${ms((1000 * cell.tableSeconds) / cell.sentences)} ms`,
          ];
        }),
      },
    ],
    reading: [
      'The paper splits a MoE layer into computing and what selecting and moving experts adds; here waiting for experts and for tables is that addition.',
    ],
  };
}

/** Table 2: by arithmetic from the shapes, at the paper's element type. */
export function memorySection(file: BenchFile): Section {
  const rows = [8, 64, 128, 256].map((experts) => {
    const shape = { ...modelNamed('switch-base-8-f32').shape, vocab: 32128, experts };
    const { all, experts: sparse } = parametersOf(shape);
    return [
      `Switch-base-${experts}, float32`,
      bytes(4 * all),
      bytes(4 * sparse),
      percent(sparse / all),
      'computed from the shape, vocabulary 32128',
    ];
  });
  const packed = file.models.map(({ model, bytes: size }) => {
    const all = size.dense + size.routers + size.experts;
    return [
      `${modelTitle(model.name)}, experts ${model.dtype}`,
      bytes(all),
      bytes(size.experts),
      percent(size.experts / all),
      'as packed here',
    ];
  });
  return {
    id: 'memory',
    title: 'Memory by model, and the share of its experts',
    beside: `${SIDA}, table 2`,
    about: [],
    tables: [{ head: ['model', 'weights', 'of them experts', 'share', 'how'], rows: [...rows, ...packed] }],
    reading: ['The paper’s own figures of this table could not be looked up.'],
  };
}

/** Throughput by element type and by experts at work. */
export function dtypeSection(file: BenchFile): Section[] {
  const cells = file.cells.filter(
    ({ system, scenario }) =>
      system === 'resident' && scenario.arrivals === undefined && scenario.link === 'disk',
  );
  const batched = cells.filter(({ scenario: { model, data, batch } }) =>
    cells.some(
      ({ scenario: other }) => other.model === model && other.data === data && other.batch !== batch,
    ),
  );
  if (batched.length === 0) return [];
  const rows = batched.map((cell) => ({
    cell,
    active: cell.needed / cell.passes,
    tokens: (1000 * cell.tokens) / cell.wallMs,
  }));
  return [
    {
      id: 'element-types',
      title: 'Throughput by element type and experts at work',
      beside: `${ELEPHANTS}, tables 1 and 3`,
      about: [
        'Every expert resident. Larger batches put more experts to work in a pass, and more tokens on each.',
      ],
      chart: lineChart({
        title: 'Throughput by sentences in a batch, every expert resident',
        subtitle: 'encoder tokens and label scoring; Switch-base shapes have random weights',
        rows: rows.map(({ cell, tokens }) => ({
          x: cell.scenario.batch,
          y: tokens,
          series: cell.scenario.model,
        })),
        x: { title: 'sentences of one batch', scale: { type: 'log', base: 2 }, values: [1, 2, 4, 8, 16, 32] },
        y: { title: 'input tokens per second (log)', scale: { type: 'log' }, format: '~s' },
        legend: 'model',
        colour: {},
      }),
      tables: [
        {
          head: [
            'model',
            'inputs',
            'batch',
            'experts at work a pass',
            'input tokens/s',
            'p50, ms',
            'experts’ bytes',
          ],
          rows: rows.map(({ cell, active, tokens }) => [
            modelTitle(cell.scenario.model),
            dataTitle(cell.scenario.data),
            String(cell.scenario.batch),
            active.toFixed(1),
            rate(tokens),
            ms(cell.p50Ms),
            bytes(cell.slotBytes * cell.experts),
          ]),
        },
      ],
      reading: [
        `The paper claims ${ELEPHANTS_CLAIMS.throughput} in throughput over its own baseline on GPUs, and a size of ${ELEPHANTS_CLAIMS.size} (abstract). Its tables could not be looked up.`,
      ],
    },
  ];
}

/** REST under random arrivals. */
export function servingSections(file: BenchFile): Section[] {
  const cells = file.cells.filter(({ scenario }) => scenario.arrivals !== undefined);
  const models = [...new Set(cells.map(({ scenario }) => scenario.model))];
  return models.map((model) => {
    const own = cells.filter(({ scenario }) => scenario.model === model);
    const { scenario } = own[0]!;
    const shares = [...new Set(own.map((cell) => cell.scenario.share))].filter((share) => share < 1);
    const share = shares.includes(0.2) ? 0.2 : (shares[0] ?? 1);
    const chosen = own.filter((cell) => cell.system === 'resident' || cell.scenario.share === share);
    const many = new Set(chosen.map((cell) => cell.scenario.arrivals)).size > 1;
    const where = `${modelTitle(model)}, ${dataTitle(scenario.data)}, ${linkTitle(scenario)}, budget ${shareName(share)} (resident: 100 %)`;
    const y = 'ms, arrival to answer (log)';
    const title = 'Answer times over REST under random arrivals';
    return {
      id: `rest-${model}`,
      title: `${title}: ${modelTitle(model)}`,
      about: [
        'A real `sida serve`; requests come by a Poisson process whether or not earlier ones were answered, and their time counts from the arrival.',
      ],
      chart: many
        ? lineChart({
            title: `${title}: 95th percentile`,
            subtitle: where,
            rows: chosen.map((cell) => ({
              x: cell.scenario.arrivals!,
              y: cell.p95Ms,
              series: cell.system as string,
            })),
            x: { title: 'requests per second that arrive', scale: { zero: true } },
            y: { title: y, scale: { type: 'log' }, format: '~s' },
            legend: 'system',
          })
        : barChart({
            title,
            subtitle: `${where}; ${chosen[0]!.scenario.arrivals} requests/s`,
            rows: chosen.flatMap((cell) =>
              (
                [
                  ['p50', cell.p50Ms],
                  ['p95', cell.p95Ms],
                  ['p99', cell.p99Ms],
                ] as const
              ).map(([group, value]) => ({
                group,
                series: cell.system as string,
                value,
              })),
            ),
            groupTitle: 'percentile',
            valueTitle: 'ms, arrival to answer',
            legend: 'system',
          }),
      tables: [
        {
          head: [
            'arrive a second',
            'budget',
            'system',
            'answered a second',
            'p50 / p95 / p99, ms',
            'refused',
            'moved a request',
          ],
          rows: own.map((cell) => [
            String(cell.scenario.arrivals),
            shareName(cell.scenario.share),
            cell.system,
            rate(perSecond(cell)),
            [cell.p50Ms, cell.p95Ms, cell.p99Ms].map(ms).join(' / '),
            String(cell.refused ?? 0),
            bytes(Math.round(cell.bytesMoved / Math.max(1, cell.sentences))),
          ]),
        },
      ],
      reading: [],
    };
  });
}
