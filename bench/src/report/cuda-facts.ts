/** Limits of a machine with a GPU and the speed of kernels, as the native benches print them. */

import type { Skipped } from '../runs/result.js';
import type { BenchFile } from './bench-file.js';

/** Printed by native/bench/cuda_limits_bench.cc. */
export interface CopyLimits {
  device: string;
  rounds: number;
  hostToDeviceBytesPerSecond: number;
  deviceToHostBytesPerSecond: number;
  expertBytes: number;
  /** One expert after the other. */
  expertToDeviceBytesPerSecond: number;
  /** Reads and writes counted. */
  deviceCopyBytesPerSecond: number;
}

/** Printed by native/bench/cuda_gemm_bench.cc: products with experts' matrices. */
export interface GemmLimits {
  device: string;
  rounds: number;
  copyBytesPerSecond: number;
  /** Operations of the tensor cores' instruction, from registers. */
  mmaPerSecond: number;
  cases: {
    format: string;
    k: number;
    n: number;
    rows: number;
    products: number;
    bytesPerSecond: number;
    ofCopy: number;
    operationsPerSecond: number;
    ofMma: number;
  }[];
}

/** Printed by native/bench/cuda_rows_bench.cc. */
export interface RowLimits {
  device: string;
  rounds: number;
  copyBytesPerSecond: number;
  cases: {
    kernel: string;
    tokens: number;
    seconds: number;
    bytesPerSecond: number;
    ofCopy: number;
    operationsPerSecond: number;
  }[];
}

/** bench/results/cuda/cuda.json. */
export interface CudaReport {
  format: 'sida-cuda-bench';
  version: 1;
  command: string;
  commit: string;
  /** Host: processor, cores, memory. */
  machine: string;
  node: string;
  gpu: {
    name: string;
    capability: string;
    totalBytes: number;
    emulated: boolean;
    driver: string;
    /** Link, clocks and limits according to nvidia-smi; empty without it. */
    details: Record<string, string>;
  };
  limits: CopyLimits | null;
  gemm: GemmLimits | null;
  rows: RowLimits | null;
  skipped: Skipped[];
  measurements: BenchFile | null;
}
