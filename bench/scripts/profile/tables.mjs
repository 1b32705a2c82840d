// The tables of recorded profiles and of what recording costs.
import { PART_NAMES, passParts } from '../../dist/studies/pass-parts.js';
import { mib, result, source, table } from '../table-format.mjs';

const percent = (share) => `${(100 * share).toFixed(1)} %`;
/** Ops below this share of the passes stand together. */
const LEAST = 0.002;

const PREDICTORS = {
  none: 'none: every load on demand',
  lstm: 'learnt on other sentences (`lstm`)',
  attention: 'learnt on other sentences (`attention`)',
  replay: 'right tables (`replay`)',
};

export const profileTables = {
  'profile-overlap': () => {
    const r = result('profile-overlap');
    const rows = Object.entries(r.summaries).map(([name, { passes, stall, transfers, tables }]) => [
      PREDICTORS[name],
      `${(passes.ms / r.summaries.none.passes.ms).toFixed(2)}×`,
      percent(stall.shareOfPasses),
      mib(transfers.bytes),
      percent(transfers.behindCompute),
      percent(transfers.whileStalled),
      percent(transfers.betweenPasses),
      name === 'none' ? '' : percent(tables.shareOfPasses),
    ]);
    const head = [
      'tables',
      'time of all passes / none',
      'passes wait',
      'moved',
      'transfers behind compute',
      'while a pass waits',
      'between passes',
      'hash building / passes',
    ];
    return `${table(head, rows)}\n\n${source(r)}`;
  },
  'profile-ops': () => {
    const r = result('profile-overlap');
    const ops = r.summaries.replay.ops.filter(({ shareOfPasses }) => shareOfPasses !== null);
    const shown = ops.filter(({ shareOfPasses }) => shareOfPasses >= LEAST);
    const rest = ops.filter((op) => !shown.includes(op)).reduce((sum, op) => sum + op.shareOfPasses, 0);
    const ms = (value) => value.toFixed(3);
    const rows = shown
      .toSorted((a, b) => b.shareOfPasses - a.shareOfPasses)
      .map((op) => [op.name, op.category, op.count, percent(op.shareOfPasses), ms(op.p50Ms), ms(op.p99Ms)]);
    rows.push(['all others', '', '', percent(rest), '', '']);
    return `${table(['op', 'category', 'count', 'of passes', 'p50 ms', 'p99 ms'], rows)}\n\n${source(r)}`;
  },
  'profile-parts': () => {
    const r = result('profile-overlap');
    const rows = Object.entries(r.summaries).map(([name, summary]) => {
      const parts = passParts(summary);
      const all = PART_NAMES.reduce((sum, part) => sum + parts[part], 0);
      return [PREDICTORS[name], ...PART_NAMES.map((part) => percent(parts[part] / all))];
    });
    return `${table(['tables', ...PART_NAMES], rows)}\n\n${source(r)}`;
  },
  'profile-overhead': () => {
    const r = result('profile-overhead');
    const row = (what, { least, turns: [low, middle, high] }) => [
      what,
      `${least.toFixed(3)}×`,
      `${middle.toFixed(2)}× (${low.toFixed(2)}–${high.toFixed(2)}×)`,
    ];
    const rows = [
      row('another engine of the same build, not recording: the noise', r.againOverOff),
      row(`recording (${r.eventsPerPass.toFixed(0)} events a pass) / not recording`, r.recordingOverOff),
      row('not recording / a build without the recorder', r.offOverWithout),
    ];
    return `${table([`passes of switch-mini, ${r.leastMs.off.toFixed(2)} ms`, 'least times of each sentence', 'median of turns (quartiles)'], rows)}\n\n${source(r)}`;
  },
};
