/** Tokens that a sequence is fed in as many passes as it takes. */
import type { RunningInput } from '../../batching/generation.js';
import type { PassAnswer, PassSequence, TokenPick, TokenQuery } from '../../batching/pass-batch.js';
import type { HashTable } from '../../protocol/hash-table.js';

export interface Feed {
  input: RunningInput;
  sequence: number;
  /** The sequence that it continues; NO_PARENT: none. */
  parent: number;
  tokens: Int32Array;
  /** Tokens of it that have run. */
  fed: number;
  /** Describes its tokens from `row` on; null: no table does. */
  table: HashTable | null;
  row: number;
  /** After its last token. */
  picks: readonly TokenPick[];
  /** What to ask of its tokens [begin, begin + count). */
  queries(begin: number, count: number): TokenQuery[];
  /** Takes the answers to them; throws nonfinite_output. Called after each of its passes. */
  take(begin: number, count: number, answer: PassAnswer): void;
}

/** The next part of a feed in one pass. */
export interface Chunk {
  feed: Feed;
  count: number;
}

export function tokensLeft({ tokens, fed }: Feed): number {
  return tokens.length - fed;
}

/** The parts of feeds, in order, that fit into `room` tokens; feeds with another routing are skipped. */
export function fillRoom(feeds: readonly Feed[], room: number, routingK: number): Chunk[] {
  const chunks: Chunk[] = [];
  let left = room;
  for (const feed of feeds) {
    if (left === 0) break;
    if (feed.input.routingK !== routingK) continue;
    const count = Math.min(left, tokensLeft(feed));
    chunks.push({ feed, count });
    left -= count;
  }
  return chunks;
}

/** The feeds as they are once the chunks have run. */
export function advanced(feeds: readonly Feed[], chunks: readonly Chunk[]): Feed[] {
  const running = new Map(chunks.map(({ feed, count }) => [feed, count]));
  return feeds
    .map((feed) => ({ ...feed, fed: feed.fed + (running.get(feed) ?? 0) }))
    .filter((feed) => tokensLeft(feed) > 0);
}

export function chunkSequence({ feed, count }: Chunk): PassSequence {
  const { input, sequence, parent, tokens, fed, picks } = feed;
  return {
    job: input.job,
    sequence,
    parent,
    tokens: tokens.subarray(fed, fed + count),
    picks: fed + count === tokens.length ? picks : [],
    queries: feed.queries(fed, count),
  };
}
