/**
 * Runs a measurement in Hugging Face transformers on the GPU that ours runs on, where its Python packages are
 * installed.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { budgetBytes } from '../../../dist/config/budget.js';
import { loadAddon } from '../../../dist/native/addon.js';
import { Tokenizer } from '../../../dist/text/tokenizer.js';
import type { SystemName } from '../scenarios/systems.js';
import { MINI_DIRECTORY, REPOSITORY, SCRIPTS } from '../support/paths.js';
import { run } from '../support/processes.js';
import { quantile } from '../support/statistics.js';
import { answersOf } from './digest.js';
import { engineConfig } from './engine-config.js';
import type { MeasurementWork, Sample } from './work.js';

const SCRIPT = `${SCRIPTS}peers/transformers_gpu.py`;

/** What `bench/scripts/peers/make-venv.sh` makes; SIDA_PEERS_PYTHON names another. */
const VENV = `${REPOSITORY}build/peers-venv/bin/python`;

/** Counts that a peer does not report. */
const NOTHING_COUNTED = {
  needed: 0,
  resident: 0,
  prefetched: 0,
  late: 0,
  onDemand: 0,
  bytesMoved: 0,
  stallSeconds: 0,
  tableSeconds: 0,
  tableWaitSeconds: 0,
  routingsPredicted: 0,
  routingHitsTop1: 0,
};

export function peerPython(): string {
  return process.env.SIDA_PEERS_PYTHON ?? (existsSync(VENV) ? VENV : 'python3');
}

/** SIDA_PEERS_DEVICE=cpu tries the script on a machine without a GPU; its figures mean nothing. */
const DEVICE = process.env.SIDA_PEERS_DEVICE ?? 'cuda';

/** The reason why the peer cannot run here, or undefined. */
export function missingOnGpu(system: SystemName): string | undefined {
  const modules =
    system === 'transformers-offload' ? 'torch, transformers, accelerate' : 'torch, transformers';
  const python = peerPython();
  const code = `import ${modules}\nassert '${DEVICE}' == 'cpu' or torch.cuda.is_available(), 'torch sees no GPU'`;
  try {
    execFileSync(python, ['-c', code], { stdio: ['ignore', 'ignore', 'pipe'], timeout: 120_000 });
    return undefined;
  } catch (error) {
    const last = String((error as { stderr?: Buffer }).stderr ?? error)
      .trim()
      .split('\n')
      .at(-1);
    return `needs Python with ${modules}, built for CUDA: ${python} says "${last}"; SIDA_PEERS_PYTHON names another`;
  }
}

interface Answer {
  /** Of each batch. */
  ms: number[];
  wallMs: number;
  sentences: number;
  scores: number[][];
  weightBytes: number;
  peakBytes: number;
  versions: string;
}

export async function runInTransformersOnGpu(work: MeasurementWork): Promise<Sample> {
  const { pack, texts, labels, warmUp, right, flags, batch, shape, peerSeconds, system } = work;
  const { threads, maxBatchTokens, kvTokens, memoryBudget, device } = engineConfig(flags);
  // Random weights have the tokenizer of switch-mini, and its special tokens.
  const config = JSON.parse(readFileSync(join(MINI_DIRECTORY, 'config.json'), 'utf8'));
  const tokenizer = new Tokenizer(readFileSync(join(pack, 'tokenizer.json')), {
    vocabSize: config.vocab_size,
    maxInputBytes: 1 << 20,
  });
  const encoded = (all: readonly string[]) => all.map((text) => [...tokenizer.encode(text)]);
  const plan = loadAddon().planMemory({ pack }, { maxBatchTokens, kvTokens, threads, device });
  const budget = system === 'transformers-offload' ? budgetBytes(memoryBudget, plan) : undefined;
  const inputs = encoded(texts);
  const input = JSON.stringify({
    ...{ shape, device: DEVICE, threads, batch, seconds: peerSeconds, inputs, warmUp: encoded(warmUp) },
    labels: labels.map((label) => [config.decoder_start_token_id, ...tokenizer.encodePlain(label)]),
    budgetBytes: budget,
  });
  const answer = JSON.parse(await run(peerPython(), [SCRIPT], { input })) as Answer;
  const { ms, wallMs, sentences, scores, peakBytes, weightBytes, versions } = answer;
  const cut =
    sentences < inputs.length ? [`its time ended after ${sentences} of ${inputs.length} inputs`] : [];
  return {
    sentences,
    tokens: inputs.slice(0, sentences).reduce((sum, tokens) => sum + tokens.length, 0),
    wallMs,
    p50Ms: quantile(ms, 0.5),
    p95Ms: quantile(ms, 0.95),
    slots: budget === undefined ? plan.experts : 0,
    experts: plan.experts,
    slotBytes: plan.slot,
    budgetBytes: budget ?? weightBytes,
    peakBytes,
    ...NOTHING_COUNTED,
    passSeconds: wallMs / 1000,
    passes: 2 * ms.length,
    ...answersOf(scores, right),
    warnings: [`${versions}, bfloat16; what it moves it does not count`, ...cut],
  };
}
