/** A line of the target table. */
import { type CANNOT_TELL, NOT_MEASURED } from '../format.js';

export type Verdict = 'reached' | 'missed' | typeof CANNOT_TELL | typeof NOT_MEASURED;

export interface TargetRow {
  /** P6, … */
  target: string;
  what: string;
  limit: string;
  figure: string;
  verdict: Verdict;
  /** Inputs of a row that the figure is from. */
  inputs: string;
  /** The same figure of what should not reach it. */
  control: string;
  command: string;
}

export const TARGET_HEAD = ['', 'what', 'target', 'figure', 'verdict', 'inputs', 'control', 'command'];

export function targetCells(row: TargetRow): string[] {
  const { target, what, limit, figure, verdict, inputs, control, command } = row;
  return [target, what, limit, figure, verdict, inputs, control, command];
}

/** Reached if all values are within the limit; there must be some. */
export function judged(values: readonly number[], within: (value: number) => boolean): Verdict {
  if (values.length === 0) return NOT_MEASURED;
  return values.every(within) ? 'reached' : 'missed';
}
