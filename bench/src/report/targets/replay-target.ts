/** P20: what the default policy without tables gains over LRU in decoding, from the replays of recorded routing. */
import type { CacheReport, ReplayReport } from '../../replay/compare.js';
import type { PolicyName } from '../../replay/policies.js';
import { DASH, NOT_MEASURED, percent } from '../format.js';
import { type Recorded, recorded } from './recorded.js';
import { judged, type TargetRow } from './target-row.js';

/** What the target table reads of bench/results/replay-*.json. */
export interface Replayed extends Recorded {
  shared: Pick<ReplayReport, 'model' | 'phases'> & { caches: readonly CacheReport[] };
}

const SIZES = ['10%', '20%'];

interface Gained {
  model: string;
  cache: string;
  /** Hits over the needs. */
  lru: number;
  none: number;
  known: number;
  shuffled: number;
}

/** Of the steps of the generation. A prefetched expert counts as loaded, and not as a hit. */
function gainedOf({ shared: { model, caches } }: Replayed): Gained[] {
  return SIZES.flatMap((size) => {
    const cache = caches.find((own) => own.cache === size);
    const hits = (policy: PolicyName, lookahead: number | null) => {
      const run = cache?.policies.find((own) => own.policy === policy && own.lookahead === lookahead);
      return run === undefined
        ? Number.NaN
        : 1 - (run.decode.misses + run.decode.prefetches) / run.decode.needs;
    };
    const own = {
      ...{ model: shortName(model), cache: size },
      lru: hits('lru', null),
      none: hits('none', null),
      known: hits('true-tables-on-demand', 1),
      shuffled: hits('shuffled-tables', 1),
    };
    return Number.isNaN(own.lru + own.none + own.known) ? [] : [own];
  });
}

function shortName(model: string | null): string {
  return (model ?? 'unnamed').replace(/^google_/, '').replace(/-Q\w+\.gguf$/, '');
}

const share = ({ lru, known }: Gained, hits: number) => (hits - lru) / (known - lru);

export function replayTarget(results: readonly Replayed[]): TargetRow {
  const row = {
    target: 'P20',
    what: 'decode hits gained over LRU without a predictor, of what knowing the next token’s routing gains; recorded routing',
    limit: '≥ 70 %',
    command: recorded('node bench/scripts/replay/replay-traces.mjs --traces DIR', results),
  };
  const all = results.flatMap(gainedOf);
  if (all.length === 0) return { ...row, figure: DASH, verdict: NOT_MEASURED, inputs: DASH, control: DASH };
  const tokens = results.map(({ shared }) => shared.phases.decode.tokens);
  return {
    ...row,
    figure: all
      .map((own) => {
        const hits = `${percent(own.lru)} to ${percent(own.none)}, known ${percent(own.known)}`;
        return `${own.model} ${own.cache}: ${percent(share(own, own.none), 0)} (${hits})`;
      })
      .join('; '),
    verdict: judged(
      all.map((own) => share(own, own.none)),
      (value) => value >= 0.7,
    ),
    inputs: [...new Set(tokens)].join(', '),
    control: `shuffled tables: ${all.map((own) => `${own.model} ${own.cache} ${percent(share(own, own.shuffled), 0)}`).join(', ')}`,
  };
}
