// The table of batch pruning.
import { mib, result, source, table } from '../table-format.mjs';

const times = (ratio) => `${ratio.toFixed(2)}×`;

function pruning() {
  const r = result('batch-pruning');
  const rows = r.runs.map(({ budget, beams, outputTokens, pruned, whole }) => [
    budget,
    beams,
    times(whole.rows / pruned.rows),
    (outputTokens / (pruned.cpuMs / 1000)).toFixed(0),
    (outputTokens / (whole.cpuMs / 1000)).toFixed(0),
    times(whole.cpuMs / pruned.cpuMs),
    mib(pruned.bytes),
    mib(whole.bytes),
  ]);
  const head = [
    'experts in memory',
    'beams',
    'rows without / with',
    'output tokens per second of processor time, with',
    'without',
    'throughput with / without',
    'experts loaded with',
    'without',
  ];
  return `${table(head, rows)}\n\n${source(r)}`;
}

export const pruningTables = { 'batch-pruning': pruning };
