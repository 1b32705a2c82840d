/** What predictors are worth on a task: `sida eval` of switch-mini, in its own process. */
import type { SourceReport } from '../../../dist/evaluation/evaluate.js';
import type { DataName } from '../scenarios/scenarios.js';

/** A source of `sida eval --json`. */
export interface TaskFidelity extends SourceReport {
  /** A task, or `text` for running text. */
  data: DataName | 'text';
  file: string;
}
