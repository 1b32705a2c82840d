/** Throughput, latency and bytes of all systems against the budget. */
import type { SystemName } from '../scenarios/systems.js';
import type { MeasurementSummary } from './bench-file.js';
import { lineChart } from './charts.js';
import { bytes, DASH, figure, linkTitle, modelTitle, percent, shareName, times } from './format.js';
import { beside, type Group, groupsOf, groupTitle, overBelady, perSecond, speedOver } from './groups.js';
import { type Section, SIDA } from './section.js';

const HEAD =
  'budget | system | inputs | device memory | sentences/s | ÷ resident | ÷ `lru` | ÷ `none` | p50 / p95, ms | ' +
  'bytes loaded per sentence | bytes ÷ Belady | waiting for experts or tables | hash building ÷ pass time | ' +
  'rounds, max ÷ min time | answers';

export function systemsSections(measurements: readonly MeasurementSummary[]): Section[] {
  return groupsOf(measurements)
    .filter((group) => group.measurements.length > 1)
    .map((group) => {
      const { model, data, link, device, batch } = group.scenario;
      const parts = [model, data, link, ...(device ? [device] : []), ...(batch > 1 ? [`batch-${batch}`] : [])];
      return {
        id: `systems-${parts.join('-')}`,
        title: `All systems: ${groupTitle(group)}`,
        beside: `${SIDA}, figures 3, 9, 10 and 11; "Towards MoE Deployment", figure 13`,
        tables: [{ head: HEAD, rows: group.measurements.map((measurement) => row(measurement, group)) }],
        ...(budgetsOf(group) > 2 && { chart: throughputChart(group) }),
      };
    });
}

const budgetsOf = ({ measurements }: Group) => new Set(measurements.map(({ scenario }) => scenario.share)).size;

function row(measurement: MeasurementSummary, group: Group): string[] {
  const { scenario, p50Ms, p95Ms, passSeconds, tableSeconds, wallMs, wallMsOfRounds } = measurement;
  const waiting = (1000 * (measurement.stallSeconds + measurement.tableWaitSeconds)) / wallMs;
  return [
    shareName(scenario.share),
    measurement.system,
    String(measurement.sentences),
    bytes(measurement.budgetBytes),
    figure(perSecond(measurement)),
    times(speedOver(measurement, group.resident)),
    times(speedOver(measurement, beside(measurement, 'lru', group))),
    times(speedOver(measurement, beside(measurement, 'none', group))),
    `${figure(p50Ms)} / ${figure(p95Ms)}`,
    bytes(measurement.bytesMoved / measurement.sentences),
    times(overBelady(measurement)),
    percent(waiting),
    tableSeconds === 0 ? DASH : percent(tableSeconds / passSeconds),
    times(Math.max(...wallMsOfRounds) / Math.min(...wallMsOfRounds)),
    answersText(measurement, group.resident),
  ];
}

function answersText({ digest, agreement }: MeasurementSummary, resident?: MeasurementSummary): string {
  if (resident === undefined || digest === '') return DASH;
  return digest === resident.digest ? 'identical bits' : `${percent(agreement)} the same label`;
}

function throughputChart(group: Group) {
  const { measurements, resident } = group;
  const rows = measurements
    .filter(({ system }) => system !== 'resident')
    .map((own) => ({ x: 100 * own.scenario.share, y: perSecond(own), series: own.system as string }));
  const level = resident === undefined ? [] : [0, 100].map((x) => ({ x, y: perSecond(resident), series: 'resident' }));
  return lineChart({
    title: 'Throughput against the budget',
    subtitle: `${groupTitle(group)}; resident needs 100 %`,
    rows: [...rows, ...level],
    x: 'share of the experts’ bytes that fits the device, %',
    y: 'sentences per second',
    domain: [0, 100],
  });
}

/** One input a batch, and fewer experts than all on the device. */
function comparedRows(measurements: readonly MeasurementSummary[], systems: readonly SystemName[]) {
  return groupsOf(measurements)
    .filter(({ scenario }) => scenario.batch === 1)
    .flatMap((group) =>
      group.measurements
        .filter(({ system, scenario }) => systems.includes(system) && scenario.share < 1)
        .map((measurement) => ({ measurement, group })),
    );
}

const SHOWN = ['default', 'lstm', 'attention', 'token', 'predicted', 'paper', 'replay', 'shuffled'] as const;
const PAPER_SHARE = 0.2;

/** The paper's system and ours on SST-2 with a fifth of the experts, one sentence a batch. */
export function paperSystems(measurements: readonly MeasurementSummary[]): Section {
  const rows = comparedRows(measurements, SHOWN)
    .filter(({ measurement: { scenario } }) => scenario.data === 'sst2' && scenario.share === PAPER_SHARE)
    .map(({ measurement, group }) => {
      const [lru, streaming] = (['lru', 'layer-streaming'] as const).map((name) => beside(measurement, name, group));
      const { resident, scenario } = group;
      return [
        modelTitle(scenario.model),
        linkTitle(scenario),
        measurement.system,
        String(measurement.sentences),
        times(speedOver(measurement, lru)),
        times(speedOver(measurement, beside(measurement, 'none', group))),
        times(speedOver(measurement, streaming)),
        times(lru && measurement.bytesMoved / lru.bytesMoved),
        percent(streaming && measurement.p50Ms / streaming.p50Ms, 0),
        percent(resident && 1 - measurement.budgetBytes / resident.budgetBytes, 0),
        times(speedOver(measurement, resident)),
      ];
    });
  const head =
    'model | link | system | inputs | throughput over `lru` | over `none` | over layer streaming | bytes over `lru` | ' +
    'latency, share of layer streaming | device memory saved | share of resident';
  return {
    id: 'paper-systems',
    title: 'The system of the SiDA paper beside ours: SST-2, a fifth of the experts',
    beside: `${SIDA}, which reports 2.60× and 3.93× the throughput of its baseline for Switch-base-128 and -256, 28 % of its latency at best, and at most 80 % less device memory`,
    about: `The paper's baseline moves whole layers under the memory limit (\`layer-streaming\`). \`paper\` is its system: predicted routing and FIFO. \`lstm\` and \`attention\` answer exactly, \`replay\` has true tables, \`shuffled\` wrong ones. Memory counts the whole device; the paper counts weights. \`lru\` and \`none\` predict nothing.`,
    tables: [{ head, rows }],
  };
}

/** A difference below it may be noise. */
const EQUAL = 0.1;

/** In how many setups each way of prediction is faster or slower than the systems without. */
export function predictionTable(measurements: readonly MeasurementSummary[]): Section {
  const rows = SHOWN.flatMap((system) => {
    const compared = comparedRows(measurements, [system]);
    if (compared.length === 0) return [];
    const verdicts = (other: SystemName) => {
      const ratios = compared.flatMap(
        ({ measurement, group }) => speedOver(measurement, beside(measurement, other, group)) ?? [],
      );
      const slower = ratios.filter((ratio) => ratio < 1 - EQUAL).length;
      const faster = ratios.filter((ratio) => ratio > 1 + EQUAL).length;
      return `${slower} / ${ratios.length - slower - faster} / ${faster}`;
    };
    const more = compared.filter(({ measurement, group }) => {
      const none = beside(measurement, 'none', group);
      return none !== undefined && measurement.bytesMoved > none.bytesMoved;
    });
    return [[system, String(compared.length), verdicts('none'), verdicts('lru'), String(more.length)]];
  });
  const head =
    'system | setups | beside `none`: slower / equal / faster | beside `lru`: slower / equal / faster | ' +
    'loads more bytes than `none`';
  return {
    id: 'prediction',
    title: 'In how many setups does prediction pay?',
    about: `One input a batch; throughputs within ${100 * EQUAL} % count as equal.`,
    tables: [{ head, rows }],
  };
}
