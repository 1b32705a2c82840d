// The tables of docs/predictor.md about training, from bench/results/.
import { result, source, table } from '../table-format.mjs';

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
};
