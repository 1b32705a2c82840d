/** A part of the report: a question, a chart, tables, and how to read them. */
import type { TopLevelSpec } from 'vega-lite';

export interface Table {
  caption?: string;
  head: string[];
  rows: string[][];
}

export interface Section {
  /** Names the chart's file and the table's place in the docs. */
  id: string;
  title: string;
  /** The table or figure of a paper that it corresponds to. */
  beside?: string;
  /** A numbered list that stands in the place of tables. */
  sentences?: string[];
  /** Paragraphs above the tables: what was done. */
  about: string[];
  chart?: TopLevelSpec;
  tables: Table[];
  /** Paragraphs below the tables: what they show, and what differs from the paper. */
  reading: string[];
}
