// The tables of `node bench/scripts/replay/replay-traces.mjs`, from bench/results/replay-*.json.
import { result, source, table } from '../table-format.mjs';

const TRACES = ['qwen', 'gemma', 'gptoss', 'switch-mini'];
const percent = (share) => (100 * share).toFixed(1).replace('-', '−');
const times = (ratio) => (ratio == null ? '–' : `${ratio.toFixed(2)}×`);
const mib = (bytes) => (bytes / 2 ** 20).toFixed(bytes < 2 ** 20 ? 2 : 1);
const verdict = (reached) => (reached ? 'reached' : 'missed');

const NAMES = { 'switch-mini': 'switch-mini, SST-2' };
const nameOf = (trace, { model }) =>
  NAMES[trace] ?? model.replace(/^google_/, '').replace(/-Q4_K_M\.gguf$/, '');

/** One source line for all traces: they come from one run. */
const sources = (reports) => [...new Set(reports.map((report) => source(report)))].join('  \n');

const reports = () => TRACES.map((trace) => ({ trace, ...result(`replay-${trace}`) }));

/** What each trace's figures are about: its generation, or for ours the whole inputs, which have next to none. */
const spanOf = (trace) => (trace === 'switch-mini' ? 'all' : 'decode');

const cacheOf = ({ caches }, cache) => caches.find((own) => own.cache === cache);
const runOf = ({ policies }, policy, lookahead = null) =>
  policies.find((run) => run.policy === policy && run.lookahead === lookahead);
const bestBlind = ({ policies }, span) =>
  policies
    .filter(({ policy, lookahead }) => lookahead === null && policy !== 'belady')
    .reduce((best, run) => (run[span].bytes < best[span].bytes ? run : best));

/** Bytes over the best policy that predicts nothing, by look-ahead. */
const TARGET_OVER_BLIND = { 1: 0.88, 4: 0.76 };

function targetRows({ trace, shared }) {
  return ['10%', '25%'].flatMap((size) =>
    [1, 4].map((lookahead) => {
      const cache = cacheOf(shared, size);
      const [ahead, demand, belady] = ['true-tables', 'true-tables-on-demand', 'belady'].map(
        (policy) => runOf(cache, policy, lookahead)[spanOf(trace)],
      );
      const target = TARGET_OVER_BLIND[lookahead];
      const both = (of, limit) => [ahead, demand].map((run) => verdict(of(run) <= limit)).join(' / ');
      // The field of older results is over the rule with the same look-ahead, which is no bound.
      const least = runOf(cache, 'belady').all.bytes;
      const [overAhead, overDemand] = ['true-tables', 'true-tables-on-demand'].map(
        (policy) => runOf(cache, policy, lookahead).all.bytes / least,
      );
      return [
        nameOf(trace, shared),
        size,
        lookahead,
        `${times(overAhead)} / ${times(overDemand)}`,
        `${times(ahead.overBlind)} / ${times(demand.overBlind)}`,
        `≤ ${times(target)}: ${both((run) => run.overBlind, target)}`,
        times(belady.overBlind),
        bestBlind(cache, spanOf(trace)).policy,
      ];
    }),
  );
}

const MISS = ['fifo', 'lru', 'lfu', 'expert-buffering', 'none', 'static-hot', 'belady'];
const missOf = ({ needs, misses, prefetches }) => percent((misses + prefetches) / needs);

/** Policies of the table of regret: those that see nothing ahead, then the others, each with its horizons. */
const REGRET = [
  'lru',
  'lfu',
  'expert-buffering',
  'none',
  'static-hot',
  'shuffled-tables',
  'true-tables',
  'belady',
];
const HORIZONS = [1, 4, 16];

function regretRows({ trace, shared }) {
  const span = spanOf(trace);
  return ['10%', '25%', '50%'].flatMap((size) => {
    const cache = cacheOf(shared, size);
    const floor = runOf(cache, 'belady')[span].bytes;
    const runs = REGRET.flatMap((policy) =>
      runOf(cache, policy) === undefined || policy === 'belady'
        ? HORIZONS.map((horizon) => runOf(cache, policy, horizon))
        : [runOf(cache, policy)],
    );
    return [...runs, runOf(cache, 'belady')].map((run) => {
      const { hits, needs, bytes, bytesPerToken } = run[span];
      const whole = run.policy === 'belady' && run.lookahead === null;
      const alike = run.lookahead === null ? undefined : runOf(cache, 'belady', run.lookahead)[span];
      return [
        nameOf(trace, shared),
        size,
        run.policy,
        run.lookahead ?? (whole ? 'whole trace' : '–'),
        percent(hits / needs),
        mib(bytesPerToken),
        alike === undefined ? '–' : `${percent(bytes / alike.bytes - 1)} %`,
        `${percent(bytes / floor - 1)} %`,
      ];
    });
  });
}

const PREDICTED = ['repeat', 'frequency', 'transition', 'shuffled'];

export const replayTables = {
  'replay-traces': () => {
    const all = reports();
    const rows = all.map(({ trace, shared }) => [
      nameOf(trace, shared),
      `${shared.layers} × ${shared.experts}`,
      `${(shared.bytes / 2 ** 30).toFixed(shared.bytes < 2 ** 30 ? 3 : 1)} GiB`,
      ...['prefill', 'decode'].map((phase) => {
        const { tokens, passes, needs } = shared.phases[phase];
        return `${tokens} / ${passes} / ${needs}`;
      }),
    ]);
    const head = ['trace', 'layers × experts', 'experts, size'];
    const counts = ['prefill: tokens / passes / experts needed', 'decode: tokens / passes / experts needed'];
    return `${table([...head, ...counts], rows)}\n\n${sources(all)}`;
  },
  'replay-short': () => {
    const all = reports();
    const rows = all.flatMap(({ trace, shared }) =>
      ['10%', '25%'].map((size) => {
        const cache = cacheOf(shared, size);
        const span = spanOf(trace);
        const over = (policy, lookahead, other) =>
          times(runOf(cache, policy, lookahead)[span].bytes / runOf(cache, other)[span].bytes);
        const best = bestBlind(cache, span);
        return [
          nameOf(trace, shared),
          size.replace('%', ' %'),
          over('none', null, 'lru'),
          over('none', null, 'belady'),
          over('true-tables', 1, 'belady'),
          over('true-tables', 4, 'belady'),
          `${times(runOf(cache, 'true-tables', 4)[span].overBlind)} (${best.policy})`,
        ];
      }),
    );
    const head = [
      'trace',
      'experts in memory',
      'without a predictor / LRU',
      'without a predictor / Belady',
      'true tables, 1 ahead / Belady',
      'true tables, 4 ahead / Belady',
      'true tables, 4 ahead / best that predicts nothing',
    ];
    return `${table(head, rows)}\n\n${sources(all)}`;
  },
  'replay-targets': () => {
    const all = reports();
    const head = [
      'trace',
      'cache',
      'look-ahead',
      'bytes of all phases / Belady, whole trace: planner / without prefetch',
      'bytes / best that predicts nothing: planner / without prefetch',
      'target',
      'Belady, same look-ahead / best that predicts nothing',
      'best that predicts nothing',
    ];
    return `${table(head, all.flatMap(targetRows))}\n\n${sources(all)}`;
  },
  'replay-regret': () => {
    const all = reports();
    const head = ['trace', 'cache', 'policy', 'look-ahead', 'hits %', 'MiB a token'];
    const regrets = [
      'over Belady’s rule with the same look-ahead, which is no bound',
      'regret: over Belady’s rule with the whole trace',
    ];
    return `${table([...head, ...regrets], all.flatMap(regretRows))}\n\n${sources(all)}`;
  },
  'replay-miss': () => {
    const all = reports();
    const rows = all.flatMap(({ trace, shared }) =>
      shared.caches.map((cache) => [
        nameOf(trace, shared),
        `${cache.cache} (${cache.slots})`,
        ...MISS.map((policy) => missOf(runOf(cache, policy)[spanOf(trace)])),
      ]),
    );
    return `${table(['trace', 'cache (experts)', ...MISS], rows)}\n\n${sources(all)}`;
  },
  'replay-phases': () => {
    const all = reports();
    const rows = all.flatMap(({ trace, shared }) =>
      ['10%', '25%'].flatMap((size) => {
        const cache = cacheOf(shared, size);
        const runs = [
          ['lru', runOf(cache, 'lru')],
          ['lfu', runOf(cache, 'lfu')],
          ['none', runOf(cache, 'none')],
          ['true tables, look-ahead 4', runOf(cache, 'true-tables', 4)],
          ['… without prefetch', runOf(cache, 'true-tables-on-demand', 4)],
          ['Belady, look-ahead 4', runOf(cache, 'belady', 4)],
          ['Belady, whole trace', runOf(cache, 'belady')],
        ];
        return runs.map(([name, run]) => [
          nameOf(trace, shared),
          size,
          name,
          ...['prefill', 'decode', 'all'].flatMap((span) => [
            missOf(run[span]),
            mib(run[span].bytesPerToken),
          ]),
        ]);
      }),
    );
    const spans = ['prefill', 'decode', 'together'].flatMap((span) => [`${span}, moved %`, 'MiB a token']);
    return `${table(['trace', 'cache', 'policy', ...spans], rows)}\n\n${sources(all)}`;
  },
  'replay-predictors': () => {
    const all = reports();
    const rows = all.flatMap(({ trace, shared }) =>
      ['10%', '25%'].flatMap((size) =>
        [0, 1, 4].map((lookahead) => [
          nameOf(trace, shared),
          size,
          lookahead,
          ...[...PREDICTED.map((kind) => `${kind}-tables`), 'true-tables'].map((policy) =>
            times(runOf(cacheOf(shared, size), policy, lookahead)[spanOf(trace)].overBlind),
          ),
        ]),
      ),
    );
    return `${table(['trace', 'cache', 'look-ahead', ...PREDICTED, 'true'], rows)}\n\n${sources(all)}`;
  },
  'replay-per-layer': () => {
    const all = reports();
    const rows = all.flatMap(({ trace, shared, perLayer }) =>
      ['10%', '25%', '50%'].map((size) => [
        nameOf(trace, shared),
        size,
        ...MISS.map((policy) => {
          const [one, each] = [shared, perLayer].map(
            (report) => runOf(cacheOf(report, size), policy)[spanOf(trace)].bytes,
          );
          return times(each / one);
        }),
      ]),
    );
    return `${table(['trace', 'cache', ...MISS], rows)}\n\n${sources(all)}`;
  },
};
