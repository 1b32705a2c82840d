import type { SidaError } from '../errors.js';
import type { GeneratedToken } from '../protocol/thread-messages.js';

/** Receives what passes gave. */
export interface Outcomes {
  tokens(tokens: GeneratedToken[]): void;
  /** `scores`: summed log-probability of each label. */
  done(item: number, job: number, scores?: number[]): void;
  /** The job's inputs stay until the job is released. */
  failed(job: number, error: SidaError): void;
}
