/** Where the time of a system goes, what an element type gains, how large models are. */

import { modelNamed, parametersOf } from '../scenarios/models.js';
import { type BenchFile, type MeasurementSummary, perSecond } from './bench-file.js';
import { barChart, lineChart } from './charts.js';
import { bytes, DASH, dataTitle, linkTitle, ms, percent, rate, shareName } from './format.js';
import { type Group, groupTitle, inputsText, modelTitle, oneByOne, usualGroups } from './groups.js';
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

/** Milliseconds of one sentence, by what they are spent on. */
function partsOf(measurement: MeasurementSummary): Record<keyof typeof PARTS, number> {
  const each = (seconds: number) => (1000 * seconds) / measurement.sentences;
  const compute = each(measurement.passSeconds - measurement.stallSeconds);
  const stall = each(measurement.stallSeconds);
  const table = each(measurement.tableWaitSeconds);
  return {
    compute,
    stall,
    table,
    rest: Math.max(0, measurement.wallMs / measurement.sentences - compute - stall - table),
  };
}

export function breakdownSections(file: BenchFile): Section[] {
  return usualGroups(file.measurements)
    .filter((group) => oneByOne(group) && group.measurements.length > 2)
    .map(breakdown);
}

function breakdown(group: Group): Section {
  const shares = [...new Set(group.measurements.map(({ scenario }) => scenario.share))].filter(
    (share) => share < 1,
  );
  const share = shares.includes(0.2) ? 0.2 : shares[0]!;
  const measurements = group.measurements.filter(
    (measurement) => measurement.system === 'resident' || measurement.scenario.share === share,
  );
  const rows = measurements.flatMap((measurement) =>
    Object.entries(partsOf(measurement)).map(([part, value]) => ({
      system: measurement.system,
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
          'inputs',
          ...Object.values(PARTS),
          'MoE overhead: waiting ÷ all',
          'hash building, hidden behind passes',
        ],
        rows: measurements.map((measurement) => {
          const parts = partsOf(measurement);
          const all = measurement.wallMs / measurement.sentences;
          return [
            measurement.system,
            inputsText(measurement),
            ...Object.values(parts).map((value) => `${ms(value)} ms`),
            percent((parts.stall + parts.table) / all),
            `${ms((1000 * measurement.tableSeconds) / measurement.sentences)} ms`,
          ];
        }),
      },
    ],
    reading: [
      'The paper splits a MoE layer into computing and what selecting and moving experts adds; here waiting for experts and for tables is that addition.',
    ],
  };
}

/** By number of experts: the paper's GB of a whole model and of its MoE layers (table 2). */
const PAPER_MEMORY: Record<number, string> = {
  8: '2.298 / 1.7932',
  64: '14.112 / 13.608',
  128: '27.614 / 27.11',
  256: '54.62 / 54.114',
};

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
      PAPER_MEMORY[experts]!,
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
      DASH,
    ];
  });
  return {
    id: 'memory',
    title: 'Memory by model, and the share of its experts',
    beside: `${SIDA}, table 2`,
    about: [],
    tables: [
      {
        head: ['model', 'weights', 'of them experts', 'share', 'how', 'the paper, GB'],
        rows: [...rows, ...packed],
      },
    ],
    reading: [
      'The paper’s GB are of 2³⁰ bytes: so its figures of whole models agree with these to one percent.',
    ],
  };
}

/** Throughput by element type and by experts at work. */
export function dtypeSection(file: BenchFile): Section[] {
  const measurements = file.measurements.filter(
    ({ system, scenario }) =>
      system === 'resident' && scenario.arrivals === undefined && scenario.link === 'disk',
  );
  const batched = measurements.filter(({ scenario: { model, data, batch } }) =>
    measurements.some(
      ({ scenario: other }) => other.model === model && other.data === data && other.batch !== batch,
    ),
  );
  if (batched.length === 0) return [];
  const rows = batched.map((measurement) => ({
    measurement,
    active: measurement.needed / measurement.passes,
    tokens: (1000 * measurement.tokens) / measurement.wallMs,
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
        rows: rows.map(({ measurement, tokens }) => ({
          x: measurement.scenario.batch,
          y: tokens,
          series: measurement.scenario.model,
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
            'task',
            'inputs',
            'batch',
            'experts at work a pass',
            'input tokens/s',
            'p50, ms',
            'experts’ bytes',
          ],
          rows: rows.map(({ measurement, active, tokens }) => [
            modelTitle(measurement.scenario.model),
            dataTitle(measurement.scenario.data),
            inputsText(measurement),
            String(measurement.scenario.batch),
            active.toFixed(1),
            rate(tokens),
            ms(measurement.p50Ms),
            bytes(measurement.slotBytes * measurement.experts),
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
  const measurements = file.measurements.filter(({ scenario }) => scenario.arrivals !== undefined);
  const models = [...new Set(measurements.map(({ scenario }) => scenario.model))];
  return models.map((model) => {
    const own = measurements.filter(({ scenario }) => scenario.model === model);
    const { scenario } = own[0]!;
    const shares = [...new Set(own.map((measurement) => measurement.scenario.share))].filter(
      (share) => share < 1,
    );
    const share = shares.includes(0.2) ? 0.2 : (shares[0] ?? 1);
    const chosen = own.filter(
      (measurement) => measurement.system === 'resident' || measurement.scenario.share === share,
    );
    const many = new Set(chosen.map((measurement) => measurement.scenario.arrivals)).size > 1;
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
            rows: chosen.map((measurement) => ({
              x: measurement.scenario.arrivals!,
              y: measurement.p95Ms,
              series: measurement.system as string,
            })),
            x: { title: 'requests per second that arrive', scale: { zero: true } },
            y: { title: y, scale: { type: 'log' }, format: '~s' },
            legend: 'system',
          })
        : barChart({
            title,
            subtitle: `${where}; ${chosen[0]!.scenario.arrivals} requests/s`,
            rows: chosen.flatMap((measurement) =>
              (
                [
                  ['p50', measurement.p50Ms],
                  ['p95', measurement.p95Ms],
                  ['p99', measurement.p99Ms],
                ] as const
              ).map(([group, value]) => ({
                group,
                series: measurement.system as string,
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
            'requests answered',
            'answered a second',
            'p50 / p95 / p99, ms',
            'refused',
            'bytes loaded per request',
          ],
          rows: own.map((measurement) => [
            String(measurement.scenario.arrivals),
            shareName(measurement.scenario.share),
            measurement.system,
            String(measurement.sentences),
            rate(perSecond(measurement)),
            [measurement.p50Ms, measurement.p95Ms, measurement.p99Ms].map(ms).join(' / '),
            String(measurement.refused ?? 0),
            bytes(Math.round(measurement.bytesMoved / Math.max(1, measurement.sentences))),
          ]),
        },
      ],
      reading: [],
    };
  });
}
