// How fast a decoder generates with a quarter of its experts, by system.
import { wrapped } from '../../../dist/text/wrapped.js';
import { median } from '../../dist/support/statistics.js';
import { mib, result, source, table } from '../table-format.mjs';

const percent = (share) => `${(100 * share).toFixed(1)} %`;
const times = (found) =>
  found === null ? '' : `${found.mean.toFixed(2)}× (${found.low.toFixed(2)} to ${found.high.toFixed(2)})`;
const HOW = ['resident', 'prefetched', 'late', 'onDemand'];

function cells(row, { expertBytes }) {
  const { link, system, perSecond, overNone, overLru, overResident, belady } = row;
  return [
    link === 'disk' ? link : `simulated link, ${link}`,
    system,
    median(perSecond).toFixed(1),
    ...[overNone, overLru, overResident].map(times),
    row.firstMs.toFixed(0),
    `${median(row.wholePerSecond).toFixed(1)}`,
    times(row.wholeOverNone),
    percent(row.stallSeconds / row.seconds),
    HOW.map((how) => percent(row[how] / row.needed)).join(', '),
    mib(row.bytes / row.passes),
    system === 'resident' ? '' : (row.bytes / expertBytes / belady).toFixed(2),
  ];
}

/** How many of the starts ended in which state, such as `4 resting, 2 probing`. */
function states(rows, which) {
  const all = rows.flatMap(({ governors }) => governors.map((governor) => governor[which].state));
  const counts = [...new Set(all)]
    .sort()
    .map((state) => `${all.filter((own) => own === state).length} ${state}`);
  return counts.join(', ');
}

function decodeSystems(name) {
  const r = result(name);
  const head = [
    'experts from',
    'system',
    'tokens/s',
    'of none’s',
    'of lru’s',
    'of resident’s',
    'first token, ms',
    'with the prompts, tokens/s',
    'of none’s',
    'of the passes, waits for experts',
    'resident, prefetched in time, late, on demand',
    'a pass moves',
    'bytes / Belady',
  ];
  const defaults = r.rows.filter(({ system }) => system === 'defaults');
  const { slots } = defaults[0];
  const about = [
    `${r.model} with int4 experts of ${mib(r.expertBytes)}, ${slots} of ${r.experts} in memory, ${r.threads} threads.`,
    `${r.starts} starts of all servers on each link, ${r.questions} questions of a start after ${r.warmUp} that are not`,
    `measured: ${defaults[0].tokens} tokens of each server on each link. Speeds are medians over the starts; ratios are`,
    'means, with 95 % intervals over the starts. All tokens are those of the run with every expert in memory. At',
    `the end of the starts, the defaults’ governors: tables ${states(defaults, 'tables')}; later layers`,
    `${states(defaults, 'layers')}.`,
  ].join(' ');
  return `${table(
    head,
    r.rows.map((row) => cells(row, r)),
  )}\n\n${wrapped(about, 120).join('\n')}\n\n${source(r)}`;
}

export const decodeSystemsTables = { 'decode-systems': () => decodeSystems('decode-systems') };
