/** Runs a measurement in Hugging Face transformers, where its Python packages are installed: the outside peer. */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { loadAddon } from '../../../dist/native/addon.js';
import { Tokenizer } from '../../../dist/text/tokenizer.js';
import { REPOSITORY, SCRIPTS } from '../support/paths.js';
import { run } from '../support/processes.js';
import { quantile } from '../support/statistics.js';
import { answersOf } from './digest.js';
import { engineConfig } from './engine-config.js';
import type { MeasurementWork, Sample } from './work.js';

const SCRIPT = `${SCRIPTS}transformers/transformers_labels.py`;
/** What `bench/scripts/transformers/make-venv.sh` makes; SIDA_PEERS_PYTHON names another. */
const VENV = `${REPOSITORY}build/peers-venv/bin/python`;

/** Counts that a peer does not report. */
export const NOTHING_COUNTED = {
  needed: 0,
  resident: 0,
  prefetched: 0,
  late: 0,
  onDemand: 0,
  bytesMoved: 0,
  stallSeconds: 0,
  tableSeconds: 0,
  tableWaitSeconds: 0,
  prefetchesBegun: 0,
  prefetchesWasted: 0,
  routingsPredicted: 0,
  routingHitsTop1: 0,
  routingHitsTop3: 0,
};

export function peerPython(): string {
  return process.env.SIDA_PEERS_PYTHON ?? (existsSync(VENV) ? VENV : 'python3');
}

/** The reason why the peer cannot run here, or undefined. */
export function missingPeer(): string | undefined {
  try {
    execFileSync(peerPython(), ['-c', 'import torch, transformers'], { stdio: 'ignore', timeout: 120_000 });
    return undefined;
  } catch {
    return `the outside peer needs Python with torch and transformers: ${peerPython()} has them not; SIDA_PEERS_PYTHON names one that has`;
  }
}

interface Answer {
  ms: number[];
  logprobs: number[][][];
  bytes: number;
  versions: string;
}

export async function runInTransformers(work: MeasurementWork): Promise<Sample> {
  const { pack, texts, labels, warmUp, right, flags, peer } = work;
  if (peer === undefined || !('checkpoint' in peer))
    throw new Error('The peer has no checkpoint. This is a bug.');
  const model = peer.checkpoint;
  const { threads, maxBatchTokens, kvTokens } = engineConfig(flags);
  const config = JSON.parse(readFileSync(join(model, 'config.json'), 'utf8'));
  const tokenizer = new Tokenizer(readFileSync(join(pack, 'tokenizer.json')), {
    vocabSize: config.vocab_size,
    maxInputBytes: 1 << 20,
  });
  const encoded = (all: readonly string[]) => all.map((text) => [...tokenizer.encode(text)]);
  const inputs = encoded(texts);
  const decoder = labels.map((label) => [config.decoder_start_token_id, ...tokenizer.encodePlain(label)]);
  const input = JSON.stringify({ model, threads, inputs, decoder, warmUp: encoded(warmUp) });
  const { ms, logprobs, bytes, versions } = JSON.parse(
    await run(peerPython(), [SCRIPT], { input }),
  ) as Answer;
  const scores = logprobs.map((own) => own.map((steps) => steps.reduce((sum, value) => sum + value, 0)));
  const plan = loadAddon().planMemory({ pack }, { maxBatchTokens, kvTokens, threads });
  return {
    sentences: inputs.length,
    tokens: inputs.reduce((sum, tokens) => sum + tokens.length, 0),
    wallMs: ms.reduce((sum, value) => sum + value, 0),
    p50Ms: quantile(ms, 0.5),
    p95Ms: quantile(ms, 0.95),
    p99Ms: quantile(ms, 0.99),
    slots: plan.experts,
    experts: plan.experts,
    slotBytes: plan.slot,
    // Parameters only; other allocations are not counted.
    budgetBytes: bytes,
    peakBytes: bytes,
    fixedBytes: bytes,
    ...NOTHING_COUNTED,
    passSeconds: ms.reduce((sum, value) => sum + value, 0) / 1000,
    passes: (1 + labels.length) * inputs.length,
    ...answersOf(scores, right),
    warnings: [`${versions}, float32, weights of a float32 model; its memory counts parameters alone`],
  };
}
