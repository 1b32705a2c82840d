/** Tokens that a sequence is fed, over one or more passes. */

import type { HashTable } from '../../protocol/hash-table.js';
import type { PassAnswer, PassSequence, TokenPick, TokenQuery } from '../pass-batch.js';
import type { RunningInput } from '../running-input.js';

export interface Feed {
  input: RunningInput;
  sequence: number;
  /** The sequence that it continues; NO_PARENT if there is none. */
  parent: number;
  tokens: Int32Array;
  /** Tokens that have already run. */
  fed: number;
  /** Tokens of the labels that are fed once it has run. */
  behind: number;
  /** Describes the tokens from `row` on; null if no table does. */
  table: HashTable | null;
  row: number;
  /** Tokens to pick after the last token. */
  picks: readonly TokenPick[];
  /** Number of most likely tokens to return for each row that another token of the feed follows. Default: 0. */
  promptTop?: number;
  /** Whether `take` needs the hidden states. */
  states?: boolean;
  /** Returns the queries for the tokens [begin, begin + count). */
  queries(begin: number, count: number): TokenQuery[];
  /** Takes a pass's results for the tokens [begin, begin + count). Throws nonfinite_output. */
  take(begin: number, count: number, answer: PassAnswer): void;
}

/** The part of a feed that runs in one pass. */
export interface Chunk {
  feed: Feed;
  count: number;
}

export function tokensLeft({ tokens, fed }: Feed): number {
  return tokens.length - fed;
}

/** Whether the grammars of its picks have answered. */
export function isReady({ picks }: Feed): boolean {
  return picks.every(({ allowed }) => allowed?.ready ?? true);
}

/** Cuts feeds, in order, into chunks that fit into `room` tokens. Skips feeds that wait or have another routing. */
export function fillRoom(feeds: readonly Feed[], room: number, routingK: number): Chunk[] {
  const chunks: Chunk[] = [];
  let left = room;
  for (const feed of feeds) {
    if (left === 0) break;
    if (feed.input.routingK !== routingK || !isReady(feed)) continue;
    const count = Math.min(left, tokensLeft(feed));
    chunks.push({ feed, count });
    left -= count;
  }
  return chunks;
}

/** Returns the unfinished feeds as they will be once the chunks have run. */
export function advanced(feeds: readonly Feed[], chunks: readonly Chunk[]): Feed[] {
  const running = new Map(chunks.map(({ feed, count }) => [feed, count]));
  return feeds
    .map((feed) => ({ ...feed, fed: feed.fed + (running.get(feed) ?? 0) }))
    .filter((feed) => tokensLeft(feed) > 0);
}

/** The rows of [begin, begin + count) that another token follows. */
export function followedRows({ length }: Int32Array, begin: number, count: number): number[] {
  const end = Math.min(begin + count, length - 1);
  return Array.from({ length: Math.max(0, end - begin) }, (_, i) => begin + i);
}

export function chunkSequence({ feed, count }: Chunk): PassSequence {
  const { input, sequence, parent, tokens, fed, picks, promptTop = 0, states = false } = feed;
  const ranked = promptTop === 0 ? [] : followedRows(tokens, fed, count);
  return {
    job: input.job,
    sequence,
    parent,
    tokens: tokens.subarray(fed, fed + count),
    picks: [
      ...ranked.map((row) => ({ row: row - fed, sampling: null, position: row + 1, top: promptTop })),
      ...(fed + count === tokens.length ? picks : []),
    ],
    queries: feed.queries(fed, count),
    states,
  };
}
