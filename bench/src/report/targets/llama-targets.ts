/** P18 and P19: decoding beside llama.cpp, in memory and within limits, from bench/results/llama-limited*.json. */
import { DASH, NOT_MEASURED, shareName, times } from '../format.js';
import { type Recorded, recorded } from './recorded.js';
import { judged, type TargetRow } from './target-row.js';

interface Speed {
  prefillTokensPerSecond: number;
  decodeTokensPerSecond: number | null;
}

interface Compared<Peer> {
  /** Of the file's bytes, what memory may hold; null: all. */
  share: number | null;
  sida: Speed;
  peer: Peer;
}

export interface LlamaLimited extends Recorded {
  file: string;
  /** Of the disk, which decides how much llama.cpp reads for a page; null where the disk does not say. */
  readAheadKib: number | null;
  /** More flags of our server. */
  serve: string;
  promptTokens: number;
  steps: number;
  /** Without a peer where the limit killed it. */
  rows: Compared<Speed | null>[];
}

/** Least ratio, by the share of the file that memory may hold. */
const DECODE = [
  { share: 0.5, least: 2.5 },
  { share: 0.35, least: 2.5 },
  { share: 0.2, least: 2.8 },
] as const;
const RESIDENT_DECODE = 1.5;

const hasPeer = (row: Compared<Speed | null>): row is Compared<Speed> => row.peer !== null;
const decodeOf = ({ sida, peer }: Compared<Speed>) =>
  (sida.decodeTokensPerSecond ?? 0) / (peer.decodeTokensPerSecond ?? Number.NaN);
const prefillOf = ({ sida, peer }: Compared<Speed>) =>
  sida.prefillTokensPerSecond / peer.prefillTokensPerSecond;

export function llamaTargets(results: readonly LlamaLimited[], amx: boolean): TargetRow[] {
  const command = recorded(
    'node bench/scripts/gguf/llama-limited.mjs --file MODEL.gguf --save llama-limited',
    results,
  );
  const inputs = [...new Set(results.map(({ promptTokens, steps }) => `${promptTokens} + ${steps} tokens`))];
  const rowOf = (
    own: Pick<TargetRow, 'target' | 'what' | 'limit'>,
    share: number | null,
    value: (row: Compared<Speed>) => number,
    least: number,
  ): TargetRow => {
    const found = results
      .map(({ rows, ...result }) => {
        const own = rows.filter((row) => row.share === share).filter(hasPeer);
        return { ...result, values: own.map(value) };
      })
      .filter(({ values }) => values.length > 0);
    const ahead = (kib: number | null) => (share === null ? '' : `, read-ahead ${kib ?? 'unknown'} KiB`);
    return {
      ...own,
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
      inputs: inputs.join(', ') || DASH,
      control: DASH,
      command,
    };
  };
  const beside = 'tokens a second over those of llama.cpp, one stream';
  const prompt = amx ? 4 : 1.5;
  return [
    rowOf(
      {
        target: 'P18',
        what: `decoding, all in memory: ${beside}`,
        limit: `≥ ${RESIDENT_DECODE.toFixed(1)}×`,
      },
      null,
      decodeOf,
      RESIDENT_DECODE,
    ),
    rowOf(
      { target: 'P18', what: `the prompt, all in memory: ${beside}`, limit: `≥ ${prompt.toFixed(1)}×` },
      null,
      prefillOf,
      prompt,
    ),
    ...DECODE.map(({ share, least }) =>
      rowOf(
        {
          target: 'P19',
          what: `decoding, memory for ${shareName(share)} of the file: ${beside}`,
          limit: `≥ ${least.toFixed(1)}×`,
        },
        share,
        decodeOf,
        least,
      ),
    ),
  ];
}
