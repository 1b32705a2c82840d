// What ordering by expert overlap saves, as Markdown.
import { mib, result, source, table } from './table-format.mjs';

const times = (value) => `${value.toFixed(2)}×`;

export function batchOrderTable() {
  const r = result('batch-order');
  const rows = r.runs.map(({ workload, maxBatchTokens, depth, share, orders }) => {
    const { arrival, overlap, shuffled, 'overlap, 32': patient } = orders;
    const loads = (run) => run.bytesMoved / run.slotBytes / run.requests;
    const ratio = (run) => times(loads(run) / loads(arrival));
    const batch = (run) => (run.expertsNeeded / run.batches).toFixed(0);
    const needed = (run) => (run.expertsNeeded / run.requests).toFixed(1);
    const wait = (run) => `${run.worstWaitBatches} (${(run.worstWaitMs / arrival.worstWaitMs).toFixed(1)}×)`;
    return [
      workload,
      maxBatchTokens,
      depth,
      `${share * 100} %`,
      `${batch(arrival)} → ${batch(overlap)}`,
      `${needed(arrival)} → ${needed(overlap)}`,
      `${loads(arrival).toFixed(1)}, ${mib(arrival.bytesMoved / arrival.requests)}`,
      `**${ratio(overlap)}**`,
      patient ? ratio(patient) : '',
      ratio(shuffled),
      `**${times(overlap.overArrival)}**`,
      times(shuffled.overArrival),
      `${arrival.worstWaitBatches}`,
      wait(overlap),
      patient ? wait(patient) : '',
    ];
  });
  const head = [
    'tasks',
    'tokens a batch',
    'in flight',
    'budget',
    'experts a batch',
    'experts a request',
    'arrival: loads and bytes a request',
    'overlap: loads, bytes / arrival',
    'passed over ≤ 32',
    'shuffled',
    'overlap: throughput / arrival',
    'shuffled',
    'arrival: worst wait, batches',
    'overlap (ms / arrival)',
    'passed over ≤ 32',
  ];
  return `${table(head, rows)}\n\n${source(r)}`;
}
