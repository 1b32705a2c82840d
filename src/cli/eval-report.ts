/** The report of `sida eval` as text for people. */

import type { LayerReport, SourceReport } from '../evaluation/evaluate.js';
import type { LabelFidelity, Perplexity } from '../evaluation/fidelity.js';
import type { HitShares } from '../predictor/hit-counts.js';
import { tableLines } from './table.js';

export interface EvaluationReport {
  model: { name: string; fingerprint: string };
  predictor: { directory: string; hashFunction: string; warnings: string[] };
  sources: ({
    file: string;
    /** How the inputs ran: labels scored, continued greedily, hidden spans scored, or the text scored as it is. */
    kind: 'labels' | 'continuations' | 'corrupted' | 'text';
  } & SourceReport)[];
}

const DASH = '–';

export function describeEvaluation({ model, predictor, sources }: EvaluationReport): string[] {
  const head = `${model.name} with ${predictor.directory} (${predictor.hashFunction})`;
  return apart([[head], ...sources.map(describeSource)]);
}

/** Joins blocks of lines with an empty line between them. */
function apart(blocks: string[][]): string[] {
  return blocks.flatMap((block, i) => (i === 0 ? block : ['', ...block]));
}

function describeSource(source: EvaluationReport['sources'][number]): string[] {
  const { file, kind, inputs, tokens, layers, labels, perplexity } = source;
  const what = {
    labels: 'with labels',
    continuations: 'continued greedily',
    corrupted: 'spans hidden',
    text: 'as it is',
  };
  const fed = Object.entries(tokens).map(([stack, count]) => `${count} ${stack}`);
  const times = Object.entries(source.tableMs).map(([name, ms]) => `${name} ${ms.toFixed(3)}`);
  const parts = [
    [`${file}, ${what[kind]}: ${inputs} inputs, ${fed.join(' and ')} tokens`],
    hitTable(layers, source.hitNames),
    [`time of an input's tables, ms: ${times.join(', ')}`],
  ];
  if (labels !== null) parts.push(labelTable(labels));
  if (perplexity !== null) parts.push(perplexityTable(perplexity));
  return apart(parts);
}

function share(value: number): string {
  return (100 * value).toFixed(1);
}

function hitCells({ hits, alphaError }: HitShares): string[] {
  return [hits.map(share).join(' / '), alphaError === null ? DASH : alphaError.toFixed(3)];
}

/** One row per layer, with two columns per hash function. */
function hitTable(layers: readonly LayerReport[], named: [string, string]): string[] {
  const names = Object.keys(layers[0]?.functions ?? {});
  const rows = layers.map(({ layer, tokens, alpha, functions }) => [
    layer,
    String(tokens),
    alpha.toFixed(3),
    ...names.flatMap((name) => hitCells(functions[name]!)),
  ]);
  const unknown = names
    .filter((name) => layers.some(({ functions }) => functions[name]!.unknown > 0))
    .map((name) => `${name} said nothing of some inputs: their tokens count as missed`);
  const table = tableLines(`lrr${'r'.repeat(2 * names.length)}`, [
    [
      named[0] === 'top-1' ? 'hits top-1 / 2 / 3, %' : `hits, ${named.join(' / ')}, %`,
      'tokens',
      'α',
      ...names.flatMap((name) => [name, '|Δα|']),
    ],
    ...rows,
  ]);
  return [...table, ...unknown];
}

const CONTROLS = ['exact', 'predicted', 'random tables', 'experts of zeros', 'share of the way, %'];
const CANNOT_TELL = 'cannot tell';

/** What the experts are worth, and whether these inputs can tell. */
function gainLine({ gain, told, inputs }: LabelFidelity | Perplexity, unit: string, scale: number): string {
  const number = (value: number) => (scale * value).toFixed(scale === 1 ? 3 : 1);
  const interval =
    gain === null
      ? 'one input has no interval'
      : `${number(gain.mean)} ${unit} an input, 95 % interval ${number(gain.low)} to ${number(gain.high)}`;
  return `exact − experts of zeros over ${inputs} inputs: ${interval}${told ? '' : `: ${CANNOT_TELL}`}`;
}

function wayText(way: number | null, told: boolean): string {
  if (!told) return CANNOT_TELL;
  return way === null ? DASH : share(way);
}

function labelTable(fidelity: LabelFidelity): string[] {
  const { exact, zeros, predicted, told } = fidelity;
  const cell = (value: number | null) => (value === null ? DASH : share(value));
  const rows = predicted.flatMap(({ k, accuracy, f1, random, way, ...own }) => [
    [
      `accuracy, k = ${k}`,
      ...[exact.accuracy, accuracy, random.accuracy, zeros.accuracy].map(cell),
      wayText(way, told),
      cell(own.fidelity),
      share(own.agreement),
      String(own.unrouted),
    ],
    ...(f1 === null
      ? []
      : [[`F1, k = ${k}`, ...[exact.f1, f1, random.f1, zeros.f1].map(cell), '', '', '', '']]),
  ]);
  const head = ['labels, %', ...CONTROLS, 'fidelity', 'agreement', 'unrouted'];
  return [...tableLines('lrrrrrrrr', [head, ...rows]), gainLine(fidelity, 'points', 100)];
}

function perplexityTable(perplexity: Perplexity): string[] {
  const { tokens, exact, zeros, predicted, told } = perplexity;
  const cell = (value: number | null) => value?.toFixed(2) ?? DASH;
  const rows = predicted.map(({ k, perplexity: own, random, way, ratio, unrouted }) => [
    `perplexity, k = ${k}`,
    ...[exact, own, random, zeros].map(cell),
    wayText(way, told),
    ratio?.toFixed(3) ?? DASH,
    String(unrouted),
  ]);
  const head = [`${tokens} target tokens`, ...CONTROLS, 'ratio', 'unrouted'];
  return [...tableLines('lrrrrrrr', [head, ...rows]), gainLine(perplexity, 'nats', 1)];
}
