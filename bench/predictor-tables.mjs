// The tables of docs/predictor.md, from bench/results/.
import { PAPER_FIDELITY, PAPER_HITS, PAPER_PERPLEXITY } from '../dist/bench/report/paper.js';
import { mib, result, source, table } from './table-format.mjs';

const percent = (share, digits = 1) => `${(100 * share).toFixed(digits)} %`;
const times = (ratio) => (ratio == null ? '–' : `${ratio.toFixed(2)}×`);
const of100 = (value) => `${value.toFixed(2)} %`;
const verdict = (reached) => (reached ? 'reached' : 'missed');

const linkText = ({ diskBytesPerSecond: disk }, link) =>
  link === 'disk'
    ? `disk, ${(disk.sequential / 1e9).toFixed(2)} GB/s read in a row, ${(disk.experts / 1e9).toFixed(2)} GB/s expert by expert`
    : 'simulated link of 12 GB/s, experts in host memory';

/** A row of each run over one link. */
function systemsTable(name, link) {
  const r = result(name);
  const rows = r.runs
    .filter((run) => run.link === link)
    .map((run) => {
      const expected = run.expertsNeeded;
      const perSentence = (value) => value / run.sentences;
      return [
        percent(run.share).replace('.0', ''),
        run.lookahead,
        run.system,
        `${run.passP50Ms.toFixed(2)} / ${run.passP95Ms.toFixed(2)}`,
        times(run.overResident),
        mib(perSentence(run.bytesMoved)),
        times(run.overBelady),
        times(run.overBestPolicy),
        [run.expertsResident, run.expertsPrefetched, run.expertsLate, run.expertsOnDemand]
          .map((count) => ((100 * count) / expected).toFixed(0))
          .join(' / '),
        [run.prefetchesBegun, run.prefetchesCancelled, run.prefetchesWasted]
          .map((count) => perSentence(count).toFixed(1))
          .join(' / '),
        perSentence(1000 * run.stallSeconds).toFixed(2),
        percent(run.hashBuilding),
        `${run.tables.ready} / ${run.tables.abandoned + run.tables.skipped} / ${run.tableWaits}`,
        times(run.overBound),
        run.differing,
      ];
    });
  const head = [
    'experts that fit',
    'look-ahead',
    'system',
    'pass, ms, median / p95',
    'time / resident',
    'moved a sentence',
    'bytes / Belady (P6)',
    'bytes / best without prediction (P7)',
    'needed experts: resident / prefetched / late / on demand, %',
    'prefetches a sentence: begun / cancelled / wasted',
    'stall a sentence, ms',
    'hash building / pass (P9)',
    'tables: ready / given up / waited for',
    'time / bound (P5)',
    'answers that differ (P12)',
  ];
  return `${linkText(r, link)}.\n\n${table(head, rows)}\n\n${source(r)}`;
}

const scarce = (run) => run.share < 1;
const fewAt = (lookahead) => (run) => run.share <= 0.25 && run.lookahead === lookahead;

/** What each ratio may be at most, and over which runs. */
const TARGETS = [
  { target: 'P5', what: 'time over max(compute, bytes ÷ link)', key: 'overBound', limit: 1.1, keep: scarce },
  { target: 'P6', what: "bytes over Belady's", key: 'overBelady', limit: 1.1, keep: scarce },
  ...[
    [1, 0.88],
    [4, 0.76],
  ].map(([lookahead, limit]) => ({
    target: 'P7',
    what: `bytes over the best without prediction, at most a quarter fits, look-ahead ${lookahead}`,
    key: 'overBestPolicy',
    least: 'beladyOverBestPolicy',
    limit,
    keep: fewAt(lookahead),
  })),
  {
    target: 'P9',
    what: 'hash building over pass',
    key: 'hashBuilding',
    limit: 0.05,
    keep: scarce,
    show: percent,
  },
];

/** Best and worst of each ratio over the runs of a system, against its target. */
function targetsTable(name) {
  const r = result(name);
  const row = ({ target, what, limit, show = times }, runs, key, label) => {
    const values = runs.map((run) => run[key]).filter((value) => value != null);
    if (values.length === 0) return [];
    const [best, worst] = [Math.min(...values), Math.max(...values)];
    return [
      [target, what, runs[0].link, label, show(limit), show(best), show(worst), verdict(worst <= limit)],
    ];
  };
  const rows = TARGETS.flatMap((one) =>
    ['disk', 'simulated link'].flatMap((link) => {
      const of = (system) =>
        r.runs.filter((run) => run.system === system && run.link === link && one.keep(run));
      return [
        ...['lstm', 'graph+lstm', 'replay'].flatMap((system) => row(one, of(system), one.key, system)),
        ...(one.least === undefined
          ? []
          : row(one, of('replay'), one.least, 'Belady: no system can move less')),
      ];
    }),
  );
  const differ = [r.differing, r.differing, verdict(r.differing === 0)];
  rows.push([
    'P12',
    `answers that differ, ${r.comparisons} runs of ${r.sentences}`,
    'both',
    'all',
    0,
    ...differ,
  ]);
  const head = ['', 'what', 'link', 'system', 'target', 'best', 'worst', ''];
  return `${table(head, rows)}\n\n${source(r)}`;
}

/** Token-weighted mean over layers of a task's top-n hits. */
function taskHits({ layers }, name, refined, top) {
  let [tokens, hits] = [0, 0];
  for (const layer of layers) {
    const own = layer.functions[name];
    if (own === undefined) return undefined;
    hits += layer.tokens * ((refined ? own.refined : undefined) ?? own).hits[top - 1];
    tokens += layer.tokens;
  }
  return hits / tokens;
}

const TASKS = ['sst2', 'mrpc', 'multirc'];

export const predictorTables = {
  'predictors-targets': () => targetsTable('predictors'),
  'predictors-disk': () => systemsTable('predictors', 'disk'),
  'predictors-link': () => systemsTable('predictors', 'simulated link'),
  'predictors-switch-base-disk': () => systemsTable('predictors-switch-base', 'disk'),
  'predictors-switch-base-link': () => systemsTable('predictors-switch-base', 'simulated link'),
  'predictors-switch-base-targets': () => targetsTable('predictors-switch-base'),
  'train-time': () => {
    const r = result('train-time');
    const pair = ([top1, top3]) => `${percent(top1)} / ${percent(top3)}`;
    const rows = r.rows.map(({ layer, token, target, lstm, way, reached }) => [
      layer,
      pair(token),
      pair(target),
      pair(lstm),
      pair(way),
      reached.map(verdict).join(' / '),
    ]);
    const head = ['layer', 'token', 'target', 'lstm', 'way from token to 100 %', 'top-1 / top-3'];
    return `${r.minutes.toFixed(1)} minutes with ${r.threads} threads (P13: at most 10).\n\n${table(head, rows)}\n\n${source(r)}`;
  },
  'predictor-presets': () => {
    const r = result('predictor-presets');
    const rows = r.runs.map((run) => [
      run.name,
      `\`${run.options}\``,
      percent(run.hits[0]),
      percent(run.hits[2]),
      `${run.microsecondsPerToken.toFixed(1)} µs`,
      mib(run.bytes),
      run.steps,
      run.minutes.toFixed(1),
    ]);
    const head = [
      'network',
      'options',
      'top-1',
      'top-3',
      'a token, one thread',
      'memory',
      'steps',
      'minutes',
    ];
    return `${table(head, rows)}\n\n${source(r)}`;
  },
  'paper-hits': () => {
    const r = result('fidelity');
    const ours = (name, refined) =>
      TASKS.map((task) => {
        const hits = r.tasks[task] && taskHits(r.tasks[task], name, refined, 3);
        return hits === undefined ? '–' : of100(100 * hits);
      });
    const rows = [
      ...Object.entries(PAPER_HITS).map(([model, hits]) => [
        `${model} fine-tuned, paper`,
        ...TASKS.map((task) => of100(hits[task])),
      ]),
      ['switch-mini, `lstm`', ...ours('lstm', false)],
      ['switch-mini, `lstm` refined by the graph', ...ours('lstm', true)],
      ['switch-mini, `token`', ...ours('token', false)],
    ];
    return `${table(['top-3 hash hits', 'SST-2', 'MRPC', 'MultiRC'], rows)}\n\n${source(r)}`;
  },
  'paper-fidelity': () => {
    const r = result('fidelity');
    const measured = (task) => {
      const { labels } = r.tasks[task] ?? {};
      if (!labels) return undefined;
      const key = task === 'sst2' ? 'accuracy' : 'f1';
      const own = labels.predicted.find(({ k }) => k === (task === 'sst2' ? 1 : 3));
      return { exact: labels.exact[key], predicted: own[key], agreement: own.agreement };
    };
    const ours = TASKS.map(measured);
    const row = (name, value) => [
      name,
      ...ours.map((own) => (own === undefined ? '–' : of100(100 * value(own)))),
    ];
    const rows = Object.entries(PAPER_FIDELITY).flatMap(([model, { exact, predicted, fidelity }]) => [
      [`${model} fine-tuned, paper`, ...TASKS.map((task) => of100(exact[task]))],
      ['… routed by predictions', ...TASKS.map((task) => of100(predicted[task]))],
      ['… fidelity', ...TASKS.map((task) => of100(fidelity[task]))],
    ]);
    rows.push(
      row('switch-mini', ({ exact }) => exact),
      row('… routed by predictions', ({ predicted }) => predicted),
      row('… fidelity (P11: ≥ 99 %)', ({ exact, predicted }) => predicted / exact),
      row('… same answer as exact mode', ({ agreement }) => agreement),
    );
    const head = ['', 'SST-2, accuracy, k = 1', 'MRPC, F1, k = 3', 'MultiRC, F1, k = 3'];
    return `${table(head, rows)}\n\n${source(r)}`;
  },
  'paper-perplexity': () => {
    const r = result('fidelity');
    const rows = Object.entries(PAPER_PERPLEXITY).map(([model, [exact, predicted]]) => [
      `${model} on C4, paper`,
      exact,
      predicted,
      times(predicted / exact),
    ]);
    for (const { k, perplexity, ratio } of r.text?.perplexity?.predicted ?? []) {
      const own = perplexity === null ? ['–', '–'] : [perplexity.toFixed(2), times(ratio)];
      rows.push([`switch-mini on ${r.text.file}, k = ${k}`, r.text.perplexity.exact.toFixed(2), ...own]);
    }
    return `${table(['perplexity', "the model's routers", 'predicted', 'ratio'], rows)}\n\n${source(r)}`;
  },
};
