import type { TopLevelSpec } from 'vega-lite';
import type { Table } from './format.js';

/** A part of the report: tables that answer one question. */
export interface Section {
  /** Names the section among the tables of documents, and its chart's file. */
  id: string;
  title: string;
  /** The table or figure of a paper that it corresponds to. */
  beside?: string;
  about?: string;
  tables: Table[];
  chart?: TopLevelSpec;
}

export const SIDA = 'SiDA-MoE (Du et al., MLSys 2024, arXiv:2310.18859)';
