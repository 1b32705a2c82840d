// The table of what a pass spends its time on, by the experts of a layer.
import { wrapped } from '../../../dist/text/wrapped.js';
import { PART_NAMES } from '../../dist/studies/pass-parts.js';
import { mib, result, source, table } from '../table-format.mjs';

const percent = (share) => `${(100 * share).toFixed(1)} %`;

export const passPartTables = {
  'pass-parts': () => {
    const r = result('pass-parts');
    const rows = r.runs.map(({ experts, system, passes, parts, transfers }) => {
      const all = PART_NAMES.reduce((sum, name) => sum + parts[name], 0);
      return [
        experts,
        system === 'resident' ? 'resident, 100 %' : `${system}, ${r.budget.replace('%', ' %')}`,
        (all / r.inputs).toFixed(1),
        ...PART_NAMES.map((name) => percent(parts[name] / all)),
        mib(transfers.bytes / r.inputs),
        passes.count,
      ];
    });
    const head = ['experts of a layer', 'tables, experts in memory', 'ms per sentence', ...PART_NAMES];
    const clients = `${r.clients} client${r.clients === 1 ? '' : 's'}`;
    const about =
      `Switch-base shape with ${r.layers} + ${r.decoderLayers} layers, feed-forward width ${r.dFf}, ${r.dtype} experts, ` +
      `routing of random weights; ${r.inputs} sentences of SST-2 from ${clients}, each once. ` +
      'What resident loads are the first loads of experts.';
    return `${table([...head, 'loaded per sentence', 'passes'], rows)}\n\n${wrapped(about, 120).join('\n')}\n\n${source(r)}`;
  },
};
