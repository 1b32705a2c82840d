// The table that compares our encoder with Hugging Face transformers.
import { commandToday, hasResult, result, table } from '../table-format.mjs';

const percent = (share) => `${(100 * share).toFixed(0)} %`;
const times = (ratio) => `${ratio.toFixed(2)}×`;
const gb = (bytes) => `${(bytes / 1e9).toFixed(2)} GB`;

/** The least ratio: against float32 with f32 activations, against bfloat16 with those of the weights' type. */
const TARGETS = {
  float32: { sst2: { f32: 1.4, bf16: 2.5, int8: 4.5, int4: 6 }, multirc: { f32: 1.3, int8: 2.5 } },
  bfloat16: { sst2: { bf16: 2, int8: 3 }, multirc: { bf16: 1.5, int8: 2 } },
};

function targetOf({ dtype, activations = 'f32', peerDtype, lengths }) {
  const aimed = activations === (peerDtype === 'float32' ? 'f32' : dtype);
  return aimed ? TARGETS[peerDtype][lengths][dtype] : undefined;
}
const TITLES = { sst2: 'SST-2', multirc: 'MultiRC' };

/** One for each kind of processor that was measured. */
function encoderPeers() {
  return ['encoder-peers', 'encoder-peers-amx'].filter(hasResult).map(peersOf).join('\n\n');
}

function peersOf(name) {
  const r = result(name);
  const rows = r.comparisons.flatMap((c) =>
    c.classes.map((k) => {
      const { activations = 'f32' } = c;
      const target = targetOf(c);
      return [
        `${c.dtype} × ${activations}`,
        c.peerDtype,
        `${TITLES[c.lengths]}, ${k.least}–${k.most}`,
        k.oursMs.toFixed(1),
        k.peerMs.toFixed(1),
        `${times(k.ratio)} (${k.ratioQuartiles.map((q) => q.toFixed(2)).join('–')})`,
        target === undefined ? '–' : `≥ ${target}×, ${k.ratio >= target ? 'reached' : 'missed'}`,
        `${k.expertsNeeded}, ${gb(k.weightBytes)}`,
        percent(k.readShare),
        activations === 'f32' ? percent(k.flopShare) : '–',
      ];
    }),
  );
  const head = [
    'weights × activations',
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
    ({ dtype, activations = 'f32', peerDtype, lengths, limits: l, outputError, commit, command }) => {
      const rates = `${(l.readBytesPerSecond / 1e9).toFixed(1)} GB/s, ${(l.fmaFlopsPerSecond / 1e9).toFixed(0)} GFLOP/s`;
      const what = `${dtype} × ${activations} beside ${peerDtype}, ${TITLES[lengths]}`;
      const made = `\`${commandToday(command)}\` · commit ${commit}`;
      return `${what}: ${rates}, outputs ${outputError.toExponential(1)} apart:\n${made}`;
    },
  );
  const versions = `${r.shape}, random weights, ${r.threads} threads, batch 1; torch ${peer.torch}, transformers ${peer.transformers}, Python ${peer.python};\n${r.machine} · ${r.isa}.`;
  return `${table(head, rows)}\n\n${versions}  \n${limits.join('  \n')}`;
}

export const transformersTables = { 'encoder-peers': encoderPeers };
