/**
 * P18 and P19: decoding beside llama.cpp and ik_llama.cpp, in memory and within limits, from
 * bench/results/llama-limited*.json.
 */
import { DASH, NOT_MEASURED, shareName, times } from '../format.js';
import { type Recorded, recorded } from './recorded.js';
import { judged, type TargetRow } from './target-row.js';

interface Speed {
  prefillTokensPerSecond: number;
  decodeTokensPerSecond: number | null;
}

interface Compared {
  /** Of the file's bytes, what memory may hold; null: all. */
  share: number | null;
  sida: Speed;
  /** llama.cpp; null where the limit killed it. */
  peer: Speed | null;
  /** ik_llama.cpp with --prefetch-experts; absent where it was not measured. */
  ikLlama?: Speed | null;
}

export interface LlamaLimited extends Recorded {
  file: string;
  /** Of the disk, which decides how much the peers read for a page; null where the disk does not say. */
  readAheadKib: number | null;
  /** More flags of our server. */
  serve: string;
  promptTokens: number;
  steps: number;
  rows: Compared[];
}

/** Least ratio, by the share of the file that memory may hold. */
const DECODE = [
  { share: 0.5, least: 2.5 },
  { share: 0.35, least: 2.5 },
  { share: 0.2, least: 2.8 },
] as const;
const RESIDENT_DECODE = 1.5;

const PEERS = { peer: 'llama.cpp', ikLlama: 'ik_llama.cpp with expert prefetch' } as const;
type Ratio = (own: Speed, other: Speed) => number;

const decodeRatio: Ratio = (own, other) =>
  (own.decodeTokensPerSecond ?? 0) / (other.decodeTokensPerSecond ?? Number.NaN);
const prefillRatio: Ratio = (own, other) => own.prefillTokensPerSecond / other.prefillTokensPerSecond;

/** What the targets name beside the rows that a result is of. */
const OTHERS: readonly TargetRow[] = [
  ['P18', 'decoding and the prompt, OLMoE-7B’s shape in Q4_0, all in memory', '≥ 1.5×'],
  ['P19', 'decoding, OLMoE-7B’s shape in Q4_0, memory for 50, 35 and 20 % of the file', '≥ 2.5×, 2.5×, 2.8×'],
  ['P19', 'decoding, Qwen3-30B-A3B’s shape in Q4_0, memory for 60 and 25 % of the file', '≥ 1.8×, 2.5×'],
].map(([target, what, limit]) => ({
  target: target!,
  what: `${what}: tokens a second over those of llama.cpp, one stream`,
  limit: limit!,
  figure: DASH,
  verdict: NOT_MEASURED,
  inputs: DASH,
  control: DASH,
  command: recorded('node bench/scripts/gguf/llama-limited.mjs --file MODEL.gguf --save llama-limited', []),
}));

export function llamaTargets(results: readonly LlamaLimited[], amx: boolean): TargetRow[] {
  const rowOf = (
    target: string,
    what: string,
    ratio: Ratio,
    { share, least, peer }: { share: number | null; least: number; peer: keyof typeof PEERS },
  ): TargetRow => {
    const found = results
      .map(({ rows, ...result }) => {
        const own = rows.filter((row) => row.share === share);
        return {
          ...result,
          values: own.flatMap(({ sida, [peer]: other }) => (other ? ratio(sida, other) : [])),
        };
      })
      .filter(({ values }) => values.length > 0);
    const inputs = new Set(found.map(({ promptTokens, steps }) => `${promptTokens} + ${steps} tokens`));
    const withPeer = peer === 'ikLlama' ? ' --ik-llama DIR' : '';
    const ahead = (kib: number | null) => (share === null ? '' : `, read-ahead ${kib ?? 'unknown'} KiB`);
    return {
      target,
      what: `${what}: tokens a second over those of ${PEERS[peer]}, one stream`,
      limit: `≥ ${least.toFixed(1)}×`,
      figure:
        found
          .map(({ file, serve, readAheadKib, values }) => {
            const ratios = values.map((ratio) => times(ratio)).join(', ');
            return `${ratios} (${[file, serve].filter(Boolean).join(', ')}${ahead(readAheadKib)})`;
          })
          .join(', ') || DASH,
      verdict:
        found.length === 0
          ? NOT_MEASURED
          : judged(
              found.flatMap(({ values }) => values),
              (ratio) => ratio >= least,
            ),
      inputs: [...inputs].join(', ') || DASH,
      control: DASH,
      command: recorded(
        `node bench/scripts/gguf/llama-limited.mjs --file MODEL.gguf${withPeer} --save llama-limited`,
        found,
      ),
    };
  };
  const inMemory = { share: null, peer: 'peer' } as const;
  const limited = (peer: keyof typeof PEERS) =>
    DECODE.map(({ share, least }) =>
      rowOf('P19', `decoding, memory for ${shareName(share)} of the file`, decodeRatio, {
        share,
        least,
        peer,
      }),
    );
  return [
    rowOf('P18', 'decoding, all in memory', decodeRatio, { ...inMemory, least: RESIDENT_DECODE }),
    rowOf('P18', 'the prompt, all in memory', prefillRatio, { ...inMemory, least: amx ? 4 : 1.5 }),
    ...limited('peer'),
    ...limited('ikLlama'),
    ...OTHERS,
  ];
}
