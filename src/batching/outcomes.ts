import type { SidaError } from '../errors.js';
import type { GeneratedToken } from '../protocol/thread-messages.js';

/** Receives the results of passes. */
export interface Outcomes {
  tokens(tokens: GeneratedToken[]): void;
  /** `scores` holds the summed log-probability of each label. */
  done(item: number, job: number, scores?: number[]): void;
  /** The job's inputs keep their resources until the job is released. */
  failed(job: number, error: SidaError): void;
}
