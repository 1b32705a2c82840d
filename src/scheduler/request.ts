/** The records of an input of a job on the inference thread, from its arrival to its end, and of its sequences. */

import type { SidaError } from '../errors.js';
import type { OpenTables } from '../forecast/pass-forecast.js';
import type { HashTable } from '../protocol/hash-table.js';
import type {
  GeneratedToken,
  ItemResults,
  PreparedRequest,
  QueuedBatch,
} from '../protocol/inference-messages.js';
import { labelTokens } from '../protocol/item-work.js';
import type { PageLease } from './pages.js';
import type { PassAnswer, TokenPick, TokenQuery } from './pass-batch.js';

/** What the requests of one batch share. */
interface RequestBatch {
  readonly id: number;
  /** Tokens of all prompts. */
  readonly promptTokens: number;
  /** Null once a request has started. */
  queued: QueuedBatch | null;
  /** Empty before a request starts. Then each is ready, or given up. */
  tables: OpenTables;
}

export interface Request extends PreparedRequest {
  /** Requests that came later have larger numbers. */
  readonly order: number;
  batch: RequestBatch;
  /** Index of its first prompt token in the batch. */
  readonly begin: number;
  /** Index of its first label token among the batch's label tokens. */
  readonly labelBegin: number;
  /** Requests of one scope may share its pages; null if the prefix cache keeps none. */
  readonly scope: string | null;
  /** The most tokens of its sequence, if its pages are taken as it grows; null if it has all pages from the start. */
  readonly most: number | null;
  /** KV pages of all its sequences; null while it does not run. */
  lease: PageLease | null;
  /** Sequence of the prompt. Later sequences attend to it (encoder-decoder) or continue it (decoder-only). */
  prompt: number;
  /** Tokens that its sequence began with, from the prefix cache. */
  begun: number;
  /** Tokens of the prompt that the prefix cache had when it first started. */
  cachedTokens: number;
  /** Parts that have not ended: its choices, or 1 if it is scored, searched or embedded. */
  partsLeft: number;
  /** What it is fed when it goes on after it gave its pages away; null while it has not. */
  suspended: Sequence | null;
}

/** A sequence of a request that is fed its tokens over one or more passes. */
export interface Sequence {
  request: Request;
  sequence: number;
  /** The sequence that it continues; NO_PARENT if there is none. */
  parent: number;
  tokens: Int32Array;
  /** Tokens that have already run. */
  fed: number;
  /** Numbers of tokens after which a pass ends, ascending. */
  cuts?: readonly number[];
  /** Tokens of the labels that are fed once it has run. */
  behind: number;
  /** Describes the tokens from `row` on; null if no table does. */
  table: HashTable | null;
  row: number;
  /** Tokens to pick after the last token. */
  picks: readonly TokenPick[];
  /** Number of most likely tokens to return for each row that another token of the sequence follows. Default: 0. */
  promptTop?: number;
  /** Whether `take` needs the hidden states. */
  states?: boolean;
  /** Returns the queries for the tokens [begin, begin + count). */
  queries(begin: number, count: number): TokenQuery[];
  /** Takes a pass's results for the tokens [begin, begin + count). Throws nonfinite_output. */
  take(begin: number, count: number, answer: PassAnswer): void;
}

/** Receives the results of passes. */
export interface Outcomes {
  tokens(tokens: GeneratedToken[]): void;
  done(item: number, job: number, results: ItemResults): void;
  /** The job's requests keep their resources until the job is released. */
  failed(job: number, error: SidaError): void;
}

interface OpenOptions {
  /** Of the first request. */
  order: number;
  /** Whether the prefix cache may keep their pages. */
  shares: boolean;
  /** An encoder takes the prompts of a batch together, whoever sent them. */
  encodes: boolean;
}

/** The records of a batch's requests. */
export function openRequests(queued: QueuedBatch, { order, shares, encodes }: OpenOptions): Request[] {
  const { id, requests } = queued.batch;
  const promptTokens = requests.reduce((sum, { tokens }) => sum + tokens.length, 0);
  const batch: RequestBatch = { id, promptTokens, queued, tables: [] };
  let [begin, labelBegin] = [0, 0];
  return requests.map((prepared, at): Request => {
    const request: Request = {
      ...prepared,
      owner: encodes ? '' : prepared.owner,
      ...{ order: order + at, batch, begin, labelBegin },
      scope: shares ? scopeOf(prepared) : null,
      most: encodes ? null : mostTokens(prepared),
      ...{ lease: null, prompt: 0, begun: 0, cachedTokens: 0, partsLeft: 0, suspended: null },
    };
    begin += prepared.tokens.length;
    labelBegin += labelTokens(prepared.work);
    return request;
  });
}

/**
 * Tables that route a request decide what its pages hold, so only requests that routers route may share pages. Those
 * whose every row is asked for must run.
 */
function scopeOf({ prefixScope, routingK, work }: PreparedRequest): string | null {
  const runs = work.kind === 'score' || (work.kind === 'generate' && !work.promptLogprobs);
  return routingK === 0 && runs ? (prefixScope ?? null) : null;
}

/** Only a single generation that routers route can give way and be computed again from its tokens alone. */
function mostTokens({ routingK, work, tokens }: PreparedRequest): number | null {
  const alone = routingK === 0 && work.kind === 'generate' && work.choices.length === 1;
  return alone ? tokens.length + work.maxTokens - 1 : null;
}
