/** The report of `sida eval` as text for people. */

import type { LayerReport, SourceReport } from '../evaluation/evaluate.js';
import type { LabelFidelity, Perplexity } from '../evaluation/fidelity.js';
import type { HitShares } from '../evaluation/hit-counts.js';
import type { BudgetMoves, Moved } from '../evaluation/moved-bytes.js';
import { formatBytes } from '../text/bytes.js';
import { tableLines } from './table.js';

export interface EvaluationReport {
  model: { name: string; fingerprint: string };
  predictor: { directory: string; hashFunction: string; warnings: string[] };
  /** Bytes of one expert slot, which one load moves. */
  expertBytes: number;
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
  const { file, kind, inputs, tokens, layers, labels, perplexity, moved } = source;
  const what = {
    labels: 'with labels',
    continuations: 'continued greedily',
    corrupted: 'spans hidden',
    text: 'as it is',
  };
  const fed = Object.entries(tokens).map(([stack, count]) => `${count} ${stack}`);
  const parts = [
    [`${file}, ${what[kind]}: ${inputs} inputs, ${fed.join(' and ')} tokens`],
    hitTable(layers, source.hitNames),
  ];
  if (labels !== null) parts.push(labelTable(labels));
  if (perplexity !== null) parts.push(perplexityTable(perplexity));
  parts.push(movedTable(moved));
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

function labelTable({ exact, predicted }: LabelFidelity): string[] {
  const f1 = (value: number | null) => (value === null ? DASH : share(value));
  return tableLines('lrrrrr', [
    ['labels, %', 'accuracy', 'F1', 'fidelity', 'agreement', 'unrouted'],
    ['exact', share(exact.accuracy), f1(exact.f1), '', '', ''],
    ...predicted.map(({ k, accuracy, f1: own, fidelity, agreement, unrouted }) => [
      `predicted, k = ${k}`,
      share(accuracy),
      f1(own),
      fidelity === null ? DASH : share(fidelity),
      share(agreement),
      String(unrouted),
    ]),
  ]);
}

function perplexityTable({ tokens, exact, predicted }: Perplexity): string[] {
  return tableLines('lrrr', [
    [`perplexity of ${tokens} target tokens`, '', 'ratio', 'unrouted'],
    ['exact', exact.toFixed(2), '', ''],
    ...predicted.map(({ k, perplexity, ratio, unrouted }) => [
      `predicted, k = ${k}`,
      perplexity?.toFixed(2) ?? DASH,
      ratio?.toFixed(3) ?? DASH,
      String(unrouted),
    ]),
  ]);
}

/** One row per policy, with two columns per budget: bytes loaded, and their ratio to the least possible bytes. */
function movedTable(moved: readonly BudgetMoves[]): string[] {
  const rules = moved[0]?.policies ?? [];
  const rows = rules.map((rule, i) => [
    nameOf(rule),
    ...moved.flatMap(({ policies }) => {
      const least = policies.at(-1)!.bytes;
      const { bytes } = policies[i]!;
      return [formatBytes(bytes), least === 0 ? DASH : (bytes / least).toFixed(2)];
    }),
  ]);
  return tableLines(`l${'rr'.repeat(moved.length)}`, [
    ['bytes moved', ...moved.flatMap(({ budget, slots }) => [`${budget} (${slots} slots)`, '×'])],
    ...rows,
  ]);
}

function nameOf({ policy, tables, lookahead }: Moved): string {
  if (policy === 'belady')
    return lookahead === null ? 'Belady, all batches' : `Belady, look-ahead ${lookahead}`;
  if (!tables) return policy;
  if (policy === 'fifo') return 'fifo with tables (SiDA-MoE)';
  return `${policy}, look-ahead ${lookahead}`;
}
