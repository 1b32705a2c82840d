/** What `sida bench replay` prints for a person. */

import { formatTable } from '../../../dist/cli/table.js';
import { formatBytes } from '../../../dist/text/bytes.js';
import {
  type CacheReport,
  type Counts,
  type PolicyCounts,
  type ReplayReport,
  SPANS,
} from '../replay/compare.js';
import { isBlind } from '../replay/policies.js';
import { PHASES } from '../replay/routing-trace.js';

const DASH = '–';

export function describeReplay(report: ReplayReport): string {
  const { trace, model, layers, experts, bytes, scope, batches, learned, phases, caches } = report;
  const counted = PHASES.map((phase) => {
    const { tokens, passes, needs } = phases[phase];
    return `${phase}: ${tokens} tokens in ${passes} passes that need ${needs} experts`;
  });
  return [
    [
      `${trace}${model === null ? '' : ` (${model})`}`,
      `${layers} layers of ${experts} experts, ${formatBytes(bytes)}; ${scope === 'shared' ? 'one cache for all layers' : 'a cache for each layer'}, empty at first`,
      `${batches} batches; static-hot chooses from the first ${learned}`,
      ...counted,
      'hit: needed experts found resident; ×B: bytes of all phases over Belady’s with the whole trace in view, 1.02 is a',
      'regret of 2 %; ×blind: bytes over the best policy that predicts nothing. Simulated: transfers take no time. It',
      'judges policies; no look-ahead of a model and no other program.',
    ].join('\n'),
    ...caches.map((cache) => describeCache(cache, layers * experts)),
  ].join('\n\n');
}

function describeCache({ cache, slots, policies }: CacheReport, all: number): string {
  const heads = SPANS.flatMap((span) => [
    `${span === 'all' ? 'all' : span} hit %`,
    'a token',
    '×B',
    '×blind',
  ]);
  const rows = policies.map((run) => [
    run.policy,
    lookaheadOf(run),
    ...SPANS.flatMap((span) => figuresOf(run[span])),
  ]);
  return formatTable(`lr${'rrrr'.repeat(SPANS.length)}`, [
    [`cache ${cache}: ${slots} of ${all}`, 'ahead', ...heads],
    ...rows,
  ]);
}

function lookaheadOf({ policy, lookahead }: PolicyCounts): string {
  if (lookahead !== null) return String(lookahead);
  return isBlind(policy) ? DASH : 'all';
}

function figuresOf({ needs, hits, bytesPerToken, overBelady, overBlind }: Counts): string[] {
  if (needs === 0) return [DASH, DASH, DASH, DASH];
  return [
    ((100 * hits) / needs).toFixed(1),
    formatBytes(Math.round(bytesPerToken)),
    overBelady?.toFixed(2) ?? DASH,
    overBlind?.toFixed(2) ?? DASH,
  ];
}
