// The table that compares static with dynamic gating.
import { result, source, table } from '../table-format.mjs';

const percent = (share) => `${(100 * share).toFixed(0)} %`;
const times = (ratio) => `${ratio.toFixed(2)}×`;

function gating() {
  const r = result('gating');
  const rows = r.layers.flatMap((layer) =>
    layer.runs.flatMap((run) =>
      run.static.map((s, i) => [
        i === 0 ? `${layer.name}, ${layer.experts} experts, top-${layer.k}, ${layer.dtype}` : '',
        i === 0 ? run.tokens : '',
        i === 0 ? `${run.expertsUsed} / ${run.mostTokens}` : '',
        i === 0 ? run.dynamicMs.toFixed(1) : '',
        s.factor === 0 ? 'drops none' : s.factor,
        s.capacity,
        percent(s.dropped),
        times(s.ms / run.dynamicMs),
        times(s.bytes / run.dynamicBytes),
      ]),
    ),
  );
  const head = [
    'routes',
    'tokens',
    'experts used / most tokens of one',
    'dynamic, ms',
    'capacity factor',
    'capacity',
    'dropped',
    'static time / dynamic',
    'static buffers / dynamic',
  ];
  return `${table(head, rows)}\n\n${source(r)}`;
}

export const gatingTables = { gating };
