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

/** A kind of file that all systems read. */
interface Subject {
  /** Begins the row's text. */
  of: string;
  file: (name: string) => boolean;
  /** Of the command that measures it. */
  flags: string;
  /** With all in memory. */
  resident: boolean;
  limits: readonly { share: number; least: number }[];
  peers: readonly (keyof typeof PEERS)[];
}

const isQwen = (name: string) => /qwen3-30b.*q4_0/i.test(name);
const isQ8 = (name: string) => /olmoe.*q8_0/i.test(name);
const isQ4 = (name: string) => /olmoe.*q4_0/i.test(name);
const SUBJECTS: readonly Subject[] = [
  {
    of: '',
    file: isQ8,
    flags: '--save llama-limited-int8-amx',
    resident: true,
    limits: DECODE,
    peers: ['peer', 'ikLlama'],
  },
  {
    of: 'OLMoE-7B’s shape in Q4_0, ',
    file: isQ4,
    flags: '--no-repack --save llama-limited-q4_0-amx',
    resident: true,
    limits: DECODE,
    peers: ['peer', 'ikLlama'],
  },
  {
    of: 'Qwen3-30B-A3B’s shape in Q4_0, ',
    file: isQwen,
    flags: '--no-repack --limits 60%,25% --save llama-limited-qwen3-30b-amx',
    resident: false,
    limits: [
      { share: 0.6, least: 1.8 },
      { share: 0.25, least: 2.5 },
    ],
    peers: ['peer', 'ikLlama'],
  },
];

export function llamaTargets(results: readonly LlamaLimited[], amx: boolean): TargetRow[] {
  return SUBJECTS.flatMap((subject) => {
    const own = results.filter(({ file }) => subject.file(file));
    const row = (target: string, what: string, ratio: Ratio, limit: Limit) =>
      rowOf(own, target, `${subject.of}${what}`, ratio, {
        ...limit,
        flags: amx ? subject.flags : subject.flags.replace('-amx', ''),
      });
    const inMemory = { share: null, peer: 'peer' } as const;
    return [
      ...(subject.resident
        ? [
            row('P18', 'decoding, all in memory', decodeRatio, { ...inMemory, least: RESIDENT_DECODE }),
            row('P18', 'the prompt, all in memory', prefillRatio, { ...inMemory, least: amx ? 4 : 1.5 }),
          ]
        : []),
      ...subject.peers.flatMap((peer) =>
        subject.limits.map(({ share, least }) =>
          row('P19', `decoding, memory for ${shareName(share)} of the file`, decodeRatio, {
            share,
            least,
            peer,
          }),
        ),
      ),
    ];
  });
}

interface Limit {
  share: number | null;
  least: number;
  peer: keyof typeof PEERS;
}

function rowOf(
  results: readonly LlamaLimited[],
  target: string,
  what: string,
  ratio: Ratio,
  { share, least, peer, flags }: Limit & { flags: string },
): TargetRow {
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
          const ratios = values.map((value) => times(value)).join(', ');
          return `${ratios} (${[file, serve].filter(Boolean).join(', ')}${ahead(readAheadKib)})`;
        })
        .join(', ') || DASH,
    verdict:
      found.length === 0
        ? NOT_MEASURED
        : judged(
            found.flatMap(({ values }) => values),
            (value) => value >= least,
          ),
    inputs: [...inputs].join(', ') || DASH,
    control: DASH,
    command: recorded(
      `node bench/scripts/gguf/llama-limited.mjs --file MODEL.gguf '--serve=--activations int8'${withPeer} ${flags}`,
      found,
    ),
  };
}
