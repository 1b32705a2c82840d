// How near passes come to the bound of compute and disk, and how long a demand waits, as Markdown.
import { mib, result, source, table } from '../table-format.mjs';

const MODELS = ['switch-mini', 'switch-base-8'];
const times = (value) => `${value.toFixed(2)}×`;
const results = () => MODELS.map((model) => result(`disk-tier-${model}`));
const sources = (all) => all.map(source).join('  \n');

export const diskTables = {
  'disk-bound': () => {
    const all = results();
    const rows = all.flatMap(({ model, runs, residentMs, experts }) =>
      runs.map((run) => [
        model,
        `${run.slots} of ${experts}`,
        run.system,
        `**${times(run.overBound)}** (${run.overBoundOfRounds.map((ratio) => ratio.toFixed(2)).join(', ')})`,
        `${((run.bytesMoved / run.bandwidth) * (1000 / residentMs)).toFixed(2)}×`,
        mib(run.bytesMoved),
        `${(run.bandwidth / 1e9).toFixed(2)} GB/s`,
        run.depth,
        `${run.pieceBytes >> 10} KiB`,
        run.diskReads,
        times(run.wallMs / residentMs),
      ]),
    );
    const head = [
      'model',
      'slots',
      'reads',
      'time / bound (each round), target ≤ 1.10×',
      'disk time / compute time',
      'moved',
      'disk',
      'depth',
      'piece',
      'reads of the disk',
      'time / resident',
    ];
    return `${table(head, rows)}\n\n${sources(all)}`;
  },
  'disk-demand': () => {
    const all = results();
    const rows = all.flatMap(({ model, slotBytes, demands }) =>
      demands.map(({ system, idle, busy }) => [
        model,
        `${slotBytes >> 10} KiB`,
        system,
        `${idle.p50.toFixed(2)} / ${idle.p99.toFixed(2)}`,
        `${busy.p50.toFixed(2)} / ${busy.p99.toFixed(2)}`,
        `${(busy.p50 - idle.p50).toFixed(2)}`,
        busy.overtakes,
      ]),
    );
    const head = [
      'model',
      'one expert',
      'reads',
      'demand alone: p50 / p99, ms',
      'among prefetches: p50 / p99, ms',
      'longer by (p50), ms',
      'overtakes',
    ];
    return `${table(head, rows)}\n\n${sources(all)}`;
  },
};
