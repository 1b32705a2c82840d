// The tables of docs/predictor.md about training, from bench/results/.
import { result, source, table } from '../table-format.mjs';
import { TOKEN, VARIANTS } from './ablation-variants.mjs';

const percent = (share, digits = 1) => `${(100 * share).toFixed(digits)} %`;
const verdict = (reached) => (reached ? 'reached' : 'missed');

export const predictorTables = {
  'train-time': () => {
    const r = result('train-time');
    const pair = ([top1, top3]) => `${percent(top1)} / ${percent(top3)}`;
    const rows = r.rows.map(({ layer, token, target, hits, way, reached }) => [
      layer,
      pair(token),
      pair(target),
      pair(hits),
      pair(way),
      reached.map(verdict).join(' / '),
    ]);
    const head = ['layer', 'token', 'target', r.network, 'way from token to 100 %', 'top-1 / top-3'];
    return `${r.minutes.toFixed(1)} minutes with ${r.threads} threads (target: at most 10).\n\n${table(head, rows)}\n\n${source(r)}`;
  },
  ...Object.fromEntries(
    ['switch-mini', 'switch-words', 'olmoe-mini'].map((model) => [
      `ablation-${model}`,
      () => ablationTable(model),
    ]),
  ),
};

/** The rows that another processor made than the last one: their times do not compare with the others. */
function elsewhere(rows, { machine }) {
  const others = rows.filter((row) => row.machine !== machine);
  if (others.length === 0) return '';
  const here = rows.filter((row) => !others.includes(row)).map(({ name }) => name);
  const made = [...new Set(others.map((row) => `${row.machine} · ${row.isa}`))].join(', ');
  return `  \nAll rows but ${here.join(', ')}: ${made}`;
}

/** One row per variant, in the order of the grid; the token table last. */
function ablationTable(model) {
  const r = result(`ablation-${model}`);
  const [first, last] = r.names;
  const order = [...VARIANTS.map(({ name }) => name), TOKEN];
  const rows = r.rows.toSorted((a, b) => order.indexOf(a.name) - order.indexOf(b.name));
  const cells = rows.map((row) => [
    row.network === TOKEN ? `\`${TOKEN}\`` : row.name,
    percent(row.first),
    percent(row.last),
    row.alphaError.toFixed(3),
    row.tableMs.toPrecision(2),
    row.parameters.toLocaleString('en'),
    row.steps?.toLocaleString('en') ?? '',
    row.minutes?.toFixed(1) ?? '',
  ]);
  const head = ['variant', first, last, '\\|Δα\\|', 'ms a table', 'parameters', 'steps', 'minutes'];
  const { alpha } = rows[0];
  const { inputs, tokens } = r.heldOut;
  const measured = `${inputs.toLocaleString('en')} held-out inputs, ${tokens.toLocaleString('en')} tokens`;
  return `${measured}; means over layers; mean α ${alpha.toFixed(3)}.\n\n${table(head, cells)}\n\n${source(r)}${elsewhere(rows, r)}`;
}
