// The table of batch pruning.
import { mib, result, source, table } from '../table-format.mjs';

const times = (ratio) => `${ratio.toFixed(2)}×`;

function pruning() {
  const r = result('batch-pruning');
  const rows = r.runs.map(({ budget, beams, batch, outputTokens, pruned, whole }) => [
    budget,
    beams,
    batch,
    times(whole.rows / pruned.rows),
    (outputTokens / (pruned.wallMs / 1000)).toFixed(0),
    (outputTokens / (whole.wallMs / 1000)).toFixed(0),
    times(whole.wallMs / pruned.wallMs),
    times(whole.cpuMs / pruned.cpuMs),
    mib(pruned.bytes),
    mib(whole.bytes),
  ]);
  const head = [
    'experts in memory',
    'beams',
    'batch',
    'rows without / with',
    'generated tokens/s, with',
    'without',
    'with / without',
    'the same by processor time',
    'experts loaded with',
    'without',
  ];
  const about = `${r.inputs} sentences of SST-2, ${r.threads} threads, medians of ${r.rounds} rounds.`;
  return `${table(head, rows)}\n\n${about}\n\n${source(r)}`;
}

export const pruningTables = { 'batch-pruning': pruning };
