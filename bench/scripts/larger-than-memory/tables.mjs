// Tables of models that are larger than the memory they run in.
import { mib, result, source, table } from '../table-format.mjs';

/** The budgets of a run of teacher-forced.mjs. */
function teacherForced(name) {
  const r = result(name);
  const rows = r.results.map((run) => [
    run.budget,
    `${run.slots} of ${run.experts}`,
    `${mib(run.rssGrowthBytes)} (${(run.rssGrowthBytes / run.budgetBytes).toFixed(3)}× budget)`,
    `${run.prefillTokensPerSecond.toFixed(1)}`,
    `${run.decodeTokensPerSecond.toFixed(1)}`,
    mib(run.bytesPerToken),
    `${(100 * run.hits).toFixed(1)} %`,
    `${(100 * run.stallShare).toFixed(0)} %`,
    `${run.distinct} in ${run.steps}`,
    run.used === undefined ? '–' : `${run.used}`,
    r.identical ? 'identical' : 'DIFFERENT',
  ]);
  const head = [
    ...['budget', 'slots', 'growth of RSS, peak', 'prefill, tokens/s', 'decode, tokens/s', 'loaded a token'],
    ...['hits', 'time stalled', 'distinct tokens', 'experts used', 'logits'],
  ];
  return `${table(head, rows)}\n\n${source(r)}`;
}

/** The same on a GPU: each number of layers looked ahead in a row of its own. */
function onGpu(name) {
  const r = result(name);
  const resident = r.results.find((run) => run.budget === '100%' && run.lookAheadLayers === 0);
  const rows = r.results.map((run) => [
    run.budget,
    mib(run.peakBytes),
    `${run.slots} of ${run.experts}`,
    `${run.lookAheadLayers}`,
    run.decodeTokensPerSecond.toFixed(1),
    `${((100 * run.decodeTokensPerSecond) / resident.decodeTokensPerSecond).toFixed(0)} %`,
    mib(run.bytesPerToken),
    `${(100 * run.hits).toFixed(1)} %`,
    `${(100 * run.stallShare).toFixed(0)} %`,
    r.identical ? 'identical' : 'DIFFERENT',
  ]);
  const head = [
    ...[
      'budget',
      'memory counted',
      'slots',
      'layers ahead',
      'decode, tokens/s',
      'of resident',
      'copied a token',
    ],
    ...['hits', 'host waited', 'logits'],
  ];
  return `${table(head, rows)}\n\n${source(r)} · ${r.gpu}`;
}

export const largeModelTables = {
  'olmoe-7b': () => teacherForced('olmoe-7b'),
  'qwen3-30b-a3b': () => teacherForced('qwen3-30b-a3b'),
  'gpt-oss-20b': () => teacherForced('gpt-oss-20b'),
  'cuda-decode': () => onGpu('cuda-decode-qwen3-30b'),
  'cuda-decode-olmoe-7b': () => onGpu('cuda-decode-olmoe-7b'),
};
