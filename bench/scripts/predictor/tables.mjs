// The tables of docs/predictor.md about training, from bench/results/.
import { mib, result, source, table } from '../table-format.mjs';

const percent = (share, digits = 1) => `${(100 * share).toFixed(digits)} %`;
const verdict = (reached) => (reached ? 'reached' : 'missed');

export const predictorTables = {
  'train-time': () => {
    const r = result('train-time');
    const pair = ([top1, top3]) => `${percent(top1)} / ${percent(top3)}`;
    const rows = r.rows.map(({ layer, token, target, lstm, way, reached }) => [
      layer,
      pair(token),
      pair(target),
      pair(lstm),
      pair(way),
      reached.map(verdict).join(' / '),
    ]);
    const head = ['layer', 'token', 'target', 'lstm', 'way from token to 100 %', 'top-1 / top-3'];
    return `${r.minutes.toFixed(1)} minutes with ${r.threads} threads (target: at most 10).\n\n${table(head, rows)}\n\n${source(r)}`;
  },
  'predictor-presets': () => {
    const r = result('predictor-presets');
    const rows = r.runs.map((run) => [
      run.name,
      `\`${run.options}\``,
      percent(run.hits[0]),
      percent(run.hits[2]),
      `${run.microsecondsPerToken.toFixed(1)} µs`,
      mib(run.bytes),
      run.steps,
      run.minutes.toFixed(1),
    ]);
    const head = [
      'network',
      'options',
      'top-1',
      'top-3',
      'a token, one thread',
      'memory',
      'steps',
      'minutes',
    ];
    return `${table(head, rows)}\n\n${source(r)}`;
  },
};
