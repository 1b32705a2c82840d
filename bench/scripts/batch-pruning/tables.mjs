// The table of batch pruning.
import { mib, result, source, table } from '../table-format.mjs';

const times = (ratio) => `${ratio.toFixed(2)}×`;

function pruning() {
  const r = result('batch-pruning');
  const rows = r.runs.map(({ budget, beams, outputTokens, pruned, whole }) => [
    budget,
    beams,
    times(whole.rows / pruned.rows),
    (outputTokens / (pruned.ms / 1000)).toFixed(0),
    (outputTokens / (whole.ms / 1000)).toFixed(0),
    times(whole.ms / pruned.ms),
    mib(pruned.bytes),
    mib(whole.bytes),
  ]);
  const head = [
    'experts in memory',
    'beams',
    'rows without / with',
    'output tokens/s with',
    'without',
    'throughput with / without',
    'experts loaded with',
    'without',
  ];
  return `${table(head, rows)}\n\n${source(r)}`;
}

export const pruningTables = { 'batch-pruning': pruning };
