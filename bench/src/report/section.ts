/** A part of the report: a question, a chart, tables, and how to read them. */
import type { TopLevelSpec } from 'vega-lite';

export interface Table {
  caption?: string;
  head: string[];
  rows: string[][];
}

export interface Section {
  /** Names its chart's file and its table's place in the docs. */
  id: string;
  title: string;
  /** Which table or figure of which paper it stands beside. */
  beside?: string;
  /** Paragraphs above: what was done. */
  about: string[];
  chart?: TopLevelSpec;
  tables: Table[];
  /** Paragraphs below: what it says, what differs from the paper. */
  reading: string[];
}
