// The tables that compare static with dynamic gating: of a layer, and of a whole model.
import { mib, result, source, table } from '../table-format.mjs';

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

const factorName = (factor) => (factor === 0 ? 'static, drops none' : `static, factor ${factor}`);

/** Throughput and memory of each way, beside dynamic gating with every expert in memory. */
function modelGating() {
  const r = result('model-gating');
  const rows = r.runs.flatMap(({ stack, batch, tokens, ms, bytes, static: padded, buffered }) => {
    const ways = [
      { name: 'dynamic', ms, memory: mib(bytes), note: '' },
      ...padded.map((own) => ({
        name: factorName(own.factor),
        ms: own.ms,
        memory: `${mib(own.bytes)}, mask ${mib(own.maskBytes)}`,
        note: own.dropped === 0 ? '' : `drops ${percent(own.dropped)}`,
      })),
      ...buffered.map((own) => ({
        name: `dynamic, ${own.policy}, ${own.budget.replace('%', ' %')}`,
        ms: own.ms,
        memory: mib(own.peakBytes),
        note: `loads ${mib(own.bytesMoved)} a pass`,
      })),
    ];
    return ways.map((way, i) => [
      i === 0 ? `${stack}, batch ${batch}` : '',
      way.name,
      way.ms.toFixed(2),
      (tokens / (way.ms / 1000)).toFixed(0),
      times(ms / way.ms),
      way.memory,
      way.note,
    ]);
  });
  const head = ['passes', 'gating', 'ms', 'tokens/s', 'throughput / dynamic', 'memory', ''];
  const about =
    `${r.model}, ${r.experts} experts a layer, ${r.dtype}: ${r.inputs} inputs of ${r.length} tokens, ` +
    `${r.steps} decoder steps, ${r.threads} threads, medians of ${r.repeats} rounds.\nStatic rows are composed.`;
  return `${table(head, rows)}\n\n${about}\n\n${source(r)}`;
}

export const gatingTables = { gating, 'model-gating': modelGating };
