/** The inputs that have started. */
import type { AdmittedItem } from './held-batch.js';
import type { PageLease } from './page-leases.js';

/** An input that has started, and the resources it holds until all its parts are done. */
export interface RunningInput {
  item: number;
  job: number;
  /** Names the key that sent it. */
  readonly owner: string;
  /** Inputs that started later have larger numbers. */
  readonly order: number;
  /** Its prompt. */
  readonly tokens: Int32Array;
  /** KV pages of all its sequences. */
  lease: PageLease;
  /** Inputs of one scope may share its pages; null if the prefix cache keeps none. */
  readonly scope: string | null;
  /** The most tokens of its sequence, if its pages are taken as it grows; null if it has all pages from the start. */
  readonly most: number | null;
  /** Tokens of the prompt whose pages the prefix cache had. */
  cachedTokens: number;
  /** Experts per token if tables route the input; 0 if the model's routers do. */
  routingK: number;
  /** Sequence of the prompt. Later sequences attend to it (encoder-decoder) or continue it (decoder-only). */
  prompt: number;
}

type Start = Pick<RunningInput, 'order' | 'routingK' | 'prompt'>;

export function startInput(
  { item, job, owner, tokens, lease, scope, most }: AdmittedItem,
  start: Start,
): RunningInput {
  return { item, job, owner, tokens, lease, scope, most, cachedTokens: 0, ...start };
}
