// The tables of how much a token's expert depends on the other tokens, beside equation 2 of SiDA-MoE.
import { MOST_CRITICAL } from '../../dist/studies/critical-tokens.js';
import { result, source, table } from '../table-format.mjs';

const percent = (share) => `${(100 * share).toFixed(1)} %`;
const DASH = '–';

/** A line for each share and layer: what changed, what equation 2 gives, and the nearest number of critical tokens. */
function rowsOf({ model, data, layers, inputs, corruption, swaps }) {
  const rows = (what, changes) =>
    changes.flatMap(({ share, probes, changed, equation }) => [
      [
        `${model}, ${data} (${inputs})`,
        what,
        percent(share),
        probes,
        changed.map(percent).join(' / '),
        ...[0, 1, 2, 3].map((c) => (equation === undefined ? DASH : percent(equation.expected[c]))),
        equation === undefined
          ? DASH
          : equation.nearest.map((c) => (c === MOST_CRITICAL ? `≥ ${c}` : c)).join(' / '),
      ],
    ]);
  return { layers: layers.join(' / '), rows: [...rows('replaced', corruption), ...rows('swapped', swaps)] };
}

export const dependencyTables = {
  'critical-tokens': () => {
    const r = result('dependency');
    const parts = r.reports.map(rowsOf);
    const layers = [...new Set(parts.map((part) => part.layers))].join('; ');
    const head = [
      'model, inputs (number)',
      'others',
      'share',
      'tokens looked at',
      `at another expert: ${layers}`,
      ...[1, 2, 3, 4].map((c) => `equation 2, c = ${c}`),
      'nearest c',
    ];
    return `${table(
      head,
      parts.flatMap(({ rows }) => rows),
    )}\n\n${source(r)}`;
  },
  'critical-token-controls': () => {
    const r = result('dependency');
    const rows = r.reports.map(({ model, data, inputs, tokens, controls }) => [
      `${model}, ${data}`,
      inputs,
      tokens,
      controls.again.changed.map(percent).join(' / '),
      controls.anotherToken.changed.map(percent).join(' / '),
    ]);
    const head = ['model, inputs', 'inputs', 'tokens', 'the same input again', 'another token of the input'];
    return `${table(head, rows)}\n\n${source(r)}`;
  },
};
