/** Charts of a replay: what each policy misses by cache size, and what looking ahead is worth. */
import type { TopLevelSpec } from 'vega-lite';
import type { PolicyCounts, ReplayReport, Span } from '../replay/compare.js';
import { isBlind } from '../replay/policies.js';
import { PHASES } from '../replay/routing-trace.js';

/** Okabe & Ito and two greys: more lines than the common palette has colours. */
const COLOURS = [
  '#0072b2',
  '#d55e00',
  '#009e73',
  '#cc79a7',
  '#e69f00',
  '#56b4e9',
  '#7f3b08',
  '#777777',
  '#000000',
];
const DASHES = [
  [1, 0],
  [6, 3],
  [2, 2],
];

/** Both phases together, and each phase with more than one pass: a single pass from an empty cache shows nothing. */
function spansOf({ phases }: ReplayReport): Span[] {
  return ['all', ...PHASES.filter((phase) => phases[phase].passes > 1)];
}

const TITLES: Record<Span, string> = { all: 'prefill and decode', prefill: 'prefill', decode: 'decode' };

function subtitleOf({ model, trace, scope }: ReplayReport): string {
  const name = model ?? trace.split('/').at(-1)!;
  return `${name}, ${scope === 'shared' ? 'one cache for all layers' : 'a cache for each layer'}, simulated`;
}

/** Policies that predict nothing, and Belady over the whole trace as the floor. */
export function missChart(report: ReplayReport): TopLevelSpec {
  const all = report.layers * report.experts;
  const shown = (run: PolicyCounts) =>
    isBlind(run.policy) || (run.policy === 'belady' && run.lookahead === null);
  const forecast = Math.max(
    0,
    ...report.caches.flatMap(({ policies }) => policies.map((run) => run.lookahead ?? 0)),
  );
  const nameOf = ({ policy }: PolicyCounts) => (policy === 'belady' ? 'Belady (floor)' : policy);
  const extra = ({ policy, lookahead }: PolicyCounts) =>
    lookahead === forecast && (policy === 'true-tables-on-demand' || policy === 'transition-tables');
  const values = spansOf(report).flatMap((span) =>
    report.caches.flatMap(({ slots, policies }) =>
      policies
        .filter((run) => shown(run) || extra(run))
        .map((run) => ({
          span: TITLES[span],
          cache: (100 * slots) / all,
          policy: extra(run) ? `${run.policy}, ${run.lookahead} ahead` : nameOf(run),
          miss: (100 * (run[span].misses + run[span].prefetches)) / run[span].needs,
        })),
    ),
  );
  return {
    title: { text: 'Experts moved by cache size', subtitle: subtitleOf(report) },
    data: { values },
    facet: { field: 'span', ...HEADER, sort: Object.values(TITLES) },
    columns: 3,
    spec: {
      width: 300,
      height: 300,
      mark: { type: 'line', point: true },
      encoding: {
        x: { field: 'cache', type: 'quantitative', title: 'cache, % of all experts' },
        y: { field: 'miss', type: 'quantitative', title: 'moved, % of the experts needed' },
        color: seriesOf(values.map(({ policy }) => policy)),
        strokeDash: { ...dashesOf(values.map(({ policy }) => policy)) },
      },
    },
  };
}

/** A panel for each cache size; the best policy that predicts nothing is a flat line. */
export function bytesChart(report: ReplayReport): TopLevelSpec {
  const [span] = report.phases.decode.needs > 0 ? (['decode'] as const) : (['prefill'] as const);
  const values = report.caches.flatMap(({ cache, policies }) => {
    const lookaheads = [...new Set(policies.flatMap(({ lookahead }) => lookahead ?? []))];
    const blind = policies.filter(({ policy }) => isBlind(policy));
    const best = blind.sort((a, b) => a[span].bytes - b[span].bytes)[0];
    const flat = lookaheads.flatMap((lookahead) =>
      best === undefined ? [] : [{ ...best, policy: 'best that predicts nothing', lookahead }],
    );
    const ahead = policies.filter(({ lookahead }) => lookahead !== null);
    return [...ahead, ...flat].map((run) => ({
      cache: `cache ${cache}`,
      policy: run.policy === 'belady' ? 'Belady, same look-ahead' : run.policy,
      lookahead: run.lookahead,
      mib: run[span].bytesPerToken / 2 ** 20,
    }));
  });
  return {
    title: { text: `Bytes moved a token by look-ahead, ${span}`, subtitle: subtitleOf(report) },
    data: { values },
    facet: { field: 'cache', ...HEADER, sort: report.caches.map(({ cache }) => `cache ${cache}`) },
    columns: 3,
    spec: {
      width: 260,
      height: 300,
      mark: { type: 'line', point: true },
      encoding: {
        x: { field: 'lookahead', type: 'ordinal', title: 'look-ahead, batches', axis: { labelAngle: 0 } },
        y: { field: 'mib', type: 'quantitative', title: 'MiB a token', scale: { type: 'log', nice: false } },
        color: seriesOf(values.map(({ policy }) => policy)),
        strokeDash: { ...dashesOf(values.map(({ policy }) => policy)) },
      },
    },
    resolve: { scale: { y: 'independent' }, axis: { x: 'independent' } },
  };
}

const LEGEND = { title: null, symbolType: 'stroke', symbolSize: 500, symbolStrokeWidth: 2.5, labelLimit: 0 };
const HEADER = { title: null, header: { labelFontSize: 13, labelPadding: 6 } };

function seriesOf(names: readonly string[]) {
  const domain = [...new Set(names)];
  const range = domain.map((name, i) =>
    name.startsWith('Belady') ? '#000000' : COLOURS[i % (COLOURS.length - 1)]!,
  );
  return { field: 'policy', type: 'nominal' as const, scale: { domain, range }, legend: LEGEND };
}

function dashesOf(names: readonly string[]) {
  const domain = [...new Set(names)];
  const range = domain.map((name, i) => (name.startsWith('Belady') ? [1, 0] : DASHES[i % DASHES.length]!));
  return { field: 'policy', type: 'nominal' as const, scale: { domain, range }, legend: LEGEND };
}
