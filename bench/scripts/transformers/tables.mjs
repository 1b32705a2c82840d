// The tables that compare us with others: transformers, static gating, and
// our own engine without the server around it.
import { result, source, table } from '../table-format.mjs';

const percent = (share) => `${(100 * share).toFixed(0)} %`;
const times = (ratio) => `${ratio.toFixed(2)}×`;
const gb = (bytes) => `${(bytes / 1e9).toFixed(2)} GB`;

/** The least ratio to aim for against float32, by our type. */
const TARGETS = { sst2: { f32: 1.4, bf16: 2.5, int8: 4.5, int4: 6 }, multirc: { f32: 1.3, int8: 2.5 } };
const TITLES = { sst2: 'SST-2', multirc: 'MultiRC' };

function encoderPeers() {
  const r = result('encoder-peers');
  const rows = r.comparisons.flatMap((c) =>
    c.classes.map((k) => {
      const target = c.peerDtype === 'float32' ? TARGETS[c.lengths][c.dtype] : undefined;
      return [
        c.dtype,
        c.peerDtype,
        `${TITLES[c.lengths]}, ${k.least}–${k.most}`,
        k.oursMs.toFixed(1),
        k.peerMs.toFixed(1),
        `${times(k.ratio)} (${k.ratioQuartiles.map((q) => q.toFixed(2)).join('–')})`,
        target === undefined ? '–' : `≥ ${target}×, ${k.ratio >= target ? 'reached' : 'missed'}`,
        `${k.expertsNeeded}, ${gb(k.weightBytes)}`,
        percent(k.readShare),
        percent(k.flopShare),
      ];
    }),
  );
  const head = [
    'ours',
    'transformers',
    'tokens',
    'ours, ms',
    'transformers, ms',
    'ratio (quartiles)',
    'target',
    'experts needed, weights touched',
    'of the read bandwidth',
    'of the FMA peak',
  ];
  const [{ peer }] = r.comparisons;
  const limits = r.comparisons.map(
    ({ dtype, peerDtype, lengths, limits: l, outputError, commit, command }) =>
      `${dtype} beside ${peerDtype}, ${TITLES[lengths]}: ${(l.readBytesPerSecond / 1e9).toFixed(1)} GB/s, ${(l.fmaFlopsPerSecond / 1e9).toFixed(0)} GFLOP/s, outputs ${outputError.toExponential(1)} apart; \`${command}\` · commit ${commit}`,
  );
  const versions = `${r.shape}, random weights, ${r.threads} threads, batch 1; torch ${peer.torch}, transformers ${peer.transformers}, Python ${peer.python}; ${r.machine} · ${r.isa}.`;
  return `${table(head, rows)}\n\n${versions}  \n${limits.join('  \n')}`;
}

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

function restOverhead() {
  const r = result('rest-overhead');
  const rows = r.runs.map((run) => [
    `${run.batchWaitMs} ms`,
    run.one.latencyP50Ms.toFixed(2),
    run.one.inferenceP50Ms.toFixed(2),
    `${run.one.overheadP50Ms.toFixed(2)} (${run.one.overheadP50Ms <= 1.5 ? 'reached' : 'missed'})`,
    run.one.queueP50Ms.toFixed(2),
    run.overBareP50Ms.toFixed(2),
    run.many.perSecond.toFixed(0),
    run.many.batch.toFixed(1),
    run.bareMany.perSecond.toFixed(0),
    `${percent(run.throughputShare)} (${run.throughputShare >= 0.9 ? 'reached' : 'missed'})`,
    [run.many.clientCpuMs, run.many.apiCpuMs, run.many.engineCpuMs, run.bareMany.cpuMs]
      .map((ms) => ms.toFixed(2))
      .join(' / '),
  ]);
  const head = [
    '--batch-wait-ms',
    '1 client: latency p50, ms',
    'engine time of it',
    'over engine time (target ≤ 1.5 ms)',
    'of that in the queue',
    'over the bare engine',
    `${r.clients} clients: requests/s`,
    'mean batch',
    'bare engine at that batch, sentences/s',
    'share (target ≥ 90 %)',
    'CPU a request, ms: clients / API process / engine process / bare engine',
  ];
  return `${table(head, rows)}\n\n${source(r)}`;
}

export const peerTables = {
  'encoder-peers': encoderPeers,
  gating,
  'rest-overhead': restOverhead,
};
