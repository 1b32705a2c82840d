/** The result of `sida bench`: what its report is generated from. */

import type { BenchModel } from '../scenarios/models.js';
import type { DataName, Measurement } from '../scenarios/scenarios.js';
import type { Provenance } from '../support/provenance.js';
import type { MeasurementWork, Sample } from '../systems/work.js';
import type { Gpu } from './gpu.js';

/**
 * What a measurement's figures depend on besides the program. A kept measurement with another spec is measured again.
 */
export interface MeasurementSpec {
  sentences: number;
  warmUp: number;
  threads: number;
  /** Hash of the texts, the pack and the predictor. */
  inputs: string;
  /** The GPU and its driver, for measurements on cuda. */
  gpu?: string;
}

export interface MeasurementResult extends Measurement {
  name: string;
  spec: MeasurementSpec;
  /** Commit of the program that ran each sample. */
  commits: string[];
  /** One per round. */
  samples: Sample[];
}

export interface Skipped {
  what: string;
  why: string;
}

/** How many experts the inputs of a length need, from the true routing. */
export interface LengthNeeds {
  least: number;
  most: number;
  inputs: number;
  /** Mean tokens. */
  tokens: number;
  /** Mean share of all experts that one input needs, and of the experts of its encoder's layers. */
  needed: number;
  neededOfEncoder: number;
}

export interface DataFacts {
  source: string;
  inputs: number;
  tokens: number;
  lengths: LengthNeeds[];
  /** Mean share of all experts that an input needs. */
  needed: number;
}

export interface ModelFacts {
  model: BenchModel;
  /** Bytes as packed. */
  bytes: { dense: number; routers: number; experts: number; expert: number };
  data: Partial<Record<DataName, DataFacts>>;
}

export interface BenchResult {
  format: 'sida-bench';
  version: 1;
  question: string;
  command: string;
  quick: boolean;
  rounds: number;
  provenance: Provenance;
  models: ModelFacts[];
  measurements: MeasurementResult[];
  skipped: Skipped[];
  warnings: string[];
  /** Exact measurements whose answers differ from those of the resident run. */
  differing: string[];
  comparisons: number;
  /** Set for measurements on cuda. */
  gpu?: Gpu;
  /** Measurements that failed on a GPU. Elsewhere a failure ends the run. */
  failed?: string[];
  seconds: number;
}

export type { MeasurementWork, Sample };
