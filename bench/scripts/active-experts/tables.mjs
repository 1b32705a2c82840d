// The table of the experts' time by the number of active experts.
import { result, source, table } from '../table-format.mjs';

export const activeExpertTables = {
  'active-experts': () => {
    const r = result('active-experts');
    const counts = [...new Set(r.runs.map(({ active }) => active))];
    const kinds = [...new Set(r.runs.map(({ format, activations }) => `${format} × ${activations}`))];
    const msOf = (kind, active) =>
      r.runs.find((run) => `${run.format} × ${run.activations}` === kind && run.active === active).ms;
    const rows = kinds.map((kind) => [
      kind,
      ...counts.map((active) => {
        const ms = msOf(kind, active);
        return `${ms.toFixed(2)} (${(msOf('f32 × f32', active) / ms).toFixed(2)}×)`;
      }),
    ]);
    const head = [
      'weights × activations',
      ...counts.map((n) => `${n} active expert${n === 1 ? '' : 's'}, ms (throughput / f32)`),
    ];
    const about =
      `${r.tokens} tokens through a layer of ${r.dModel} × ${r.dFf} (random weights), ${r.threads} threads, ` +
      `medians of ${r.rounds} rounds.`;
    return `${table(head, rows)}\n\n${about}\n\n${source(r)}`;
  },
};
