// The table of what REST adds to the engine alone.
import { hasResult, result, source, table } from '../table-format.mjs';

const percent = (share) => `${(100 * share).toFixed(0)} %`;

/** One for each kind of processor that was measured. */
function restOverhead() {
  return ['rest-overhead', 'rest-overhead-amx'].filter(hasResult).map(overheadOf).join('\n\n');
}

function overheadOf(name) {
  const r = result(name);
  const rows = r.runs.map((run) => [
    `${run.batchWaitMs} ms`,
    run.one.latencyP50Ms.toFixed(2),
    run.one.inferenceP50Ms.toFixed(2),
    `${run.one.overheadP50Ms.toFixed(2)} (${run.one.overheadP50Ms <= 1 ? 'reached' : 'missed'})`,
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
    'over engine time (target ≤ 1 ms)',
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

export const restTables = { 'rest-overhead': restOverhead };
