// What looking ahead gains, by budget and layers, and how well experts can be named ahead at all.
import { commandToday, mib, result, source, table } from '../table-format.mjs';

const percent = (share) => `${(100 * share).toFixed(1)} %`;

function lookAhead(name) {
  const r = result(name);
  const rows = r.rows.map(({ budget, layers, slower, ...own }, i) => [
    budget,
    i > 0 && r.rows[i - 1].budget === budget && layers === 0 ? '0, again' : layers,
    slower === null ? '' : `${percent(slower.mean)} (${percent(slower.low)} to ${percent(slower.high)})`,
    percent(own.stallSeconds / own.seconds),
    ...['resident', 'prefetched', 'late', 'onDemand'].map((how) => percent(own[how] / own.needed)),
    own.foreseen === 0 ? '' : percent(own.wasted / own.foreseen),
    mib(own.bytes / own.passes),
  ]);
  const head = [
    'experts in memory',
    'layers',
    'slower than with 0',
    'of the passes, waits for experts',
    'resident',
    'prefetched in time',
    'late',
    'on demand',
    'of the prefetches, wasted',
    'a pass moves',
  ];
  const host = r.hostBudget == null ? '' : ` from a host tier of ${r.hostBudget}`;
  const link = r.linkBandwidth === null ? 'disk' : `simulated link, ${r.linkBandwidth}${host}`;
  const about = `${r.model}, ${r.task}, ${link}, ${r.threads} threads, ${r.requests} requests of each row.`;
  return `${table(head, rows)}\n\n${about}\n\n${source(r)}`;
}

function nameExperts() {
  const r = result('name-experts');
  const rows = r.rows.map(
    ({ known, layers, recallAtK, recallAt2K, byRank, ofMissingNamed, ofNamedRight }) => [
      known,
      layers,
      ...[recallAtK, recallAt2K].map(percent),
      byRank.map((share) => (100 * share).toFixed(0)).join(', '),
      ...[ofMissingNamed, ofNamedRight].map(percent),
    ],
  );
  const head = [
    'known',
    'layers',
    'recall@4',
    'recall@8',
    'right by rank, %',
    'of the missing, named',
    'of the named, right',
  ];
  const { learned, calibrated, judged } = r.tokens;
  const about =
    `${r.model}, ${judged} held-out tokens; ${calibrated} others set the chances, ${learned} of other texts trained\n` +
    `tables and linears. *Missing*: not among the ${percent(r.resident)} of a layer's experts that were needed\nlast. ` +
    `*Named*: with a chance of ${r.leastChance} or more.`;
  return `${table(head, rows)}\n\n${about}\n\n\`${commandToday(r.command)}\`\ncommit ${r.commit}`;
}

export const lookAheadTables = {
  'look-ahead': () => lookAhead('look-ahead'),
  'look-ahead-link': () => lookAhead('look-ahead-link'),
  'look-ahead-fast-link': () => lookAhead('look-ahead-fast-link'),
  'look-ahead-slow-link': () => lookAhead('look-ahead-slow-link'),
  'name-experts': () => nameExperts(),
};
