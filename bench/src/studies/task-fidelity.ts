/** What predictors are worth on a task or a text: `sida eval` of a bundled model, in its own process. */
import type { SourceReport } from '../../../dist/evaluation/evaluate.js';
import type { LabelFidelity, Perplexity } from '../../../dist/evaluation/fidelity.js';
import type { DataName } from '../scenarios/scenarios.js';

/** Results of before controls were measured lack them. */
type Lacking<T, K extends keyof T> = Omit<T, K> & Partial<Pick<T, K>>;
type Recorded<T extends LabelFidelity | Perplexity> = Omit<
  Lacking<T, 'inputs' | 'zeros' | 'gain' | 'told'>,
  'predicted'
> & { predicted: Lacking<T['predicted'][number], 'random' | 'way'>[] };

/** A task, or `text` for running text. */
export type FidelityData = DataName | 'text';

/** A source of `sida eval --json`. */
export interface TaskFidelity extends Omit<SourceReport, 'labels' | 'perplexity'> {
  /** Default: switch-mini. */
  model?: string;
  data: FidelityData;
  file: string;
  labels: Recorded<LabelFidelity> | null;
  perplexity: Recorded<Perplexity> | null;
}
