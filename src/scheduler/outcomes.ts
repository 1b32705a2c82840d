import type { SidaError } from '../errors.js';
import type { GeneratedToken, ItemResults } from '../protocol/inference-messages.js';

/** Receives the results of passes. */
export interface Outcomes {
  tokens(tokens: GeneratedToken[]): void;
  done(item: number, job: number, results: ItemResults): void;
  /** The job's inputs keep their resources until the job is released. */
  failed(job: number, error: SidaError): void;
}
