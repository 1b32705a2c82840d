/** Makes the packs, traces and predictors that measurements need in a work directory, and uses existing ones again. */
import { createHash } from 'node:crypto';
import { copyFileSync, existsSync, mkdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { freemem } from 'node:os';
import { join } from 'node:path';
import { hashOfFiles } from '../../../dist/checkpoint/identity.js';
import { isPack, readManifest } from '../../../dist/checkpoint/manifest.js';
import { SidaError } from '../../../dist/errors.js';
import type { DeviceName } from '../../../dist/native/addon-types.js';
import { readPredictorManifest } from '../../../dist/predictor/training/manifest.js';
import { NETWORK_NAMES } from '../../../dist/protocol/predictor-messages.js';
import { formatBytes } from '../../../dist/text/bytes.js';
import { readMeta } from '../../../dist/trace/trace-file.js';
import { type BenchModel, diskNeed, SWITCH_MINI } from '../scenarios/models.js';
import { MINI_DIRECTORY } from '../support/paths.js';
import { makeSwitchCheckpoint, sida } from '../support/processes.js';
import type { BenchInputs } from './inputs.js';

export interface PreparedModel {
  pack: string;
  fingerprint: string;
  /** Identity of the model's weights. */
  weights: string;
}

export interface Maker {
  /** Directory of everything that is made. */
  work: string;
  threads: number;
  seed: number;
  /** Device on which traces are recorded; default cpu. */
  device?: DeviceName | undefined;
  /** Stops the work in progress. */
  signal?: AbortSignal | undefined;
  /** Reports the current step. */
  onStep: (what: string) => void;
}

/** Bytes. Smaller checkpoints stay in the page cache. */
const MINI_PREDICTOR = join(MINI_DIRECTORY, 'predictor');
const BIG_CHECKPOINT = 4e9;

/** Throws cannot_run with the bytes needed and free. */
export function checkRoom(directory: string, needed: number, what: string): void {
  mkdirSync(directory, { recursive: true });
  const { bavail, bsize } = statfsSync(directory);
  if (bavail * bsize >= needed) return;
  throw new SidaError({
    code: 'cannot_run',
    message: `${what} needs ${formatBytes(needed)} in ${directory}, ${formatBytes(bavail * bsize)} are free; name another directory with --work, or leave it out with --only`,
  });
}

export async function prepareModel(model: BenchModel, maker: Maker): Promise<PreparedModel> {
  const { work, onStep, signal } = maker;
  const directory = join(work, model.name);
  const pack = join(directory, 'pack');
  if (!isPack(pack)) {
    const { checkpoint, pack: packed } = diskNeed(model);
    const memory = checkpointInMemory(checkpoint);
    checkRoom(directory, packed + (memory === undefined ? checkpoint : 0), model.name);
    const trained = model.weights === 'trained';
    const source = trained ? MINI_DIRECTORY : (memory ?? join(directory, 'checkpoint'));
    try {
      if (!trained) await makeCheckpoint(model, source, maker);
      onStep(`${model.name}: packing (${formatBytes(packed)})`);
      await sida(['convert', source, '--out', pack, '--experts', model.dtype], { signal });
    } finally {
      if (!trained) rmSync(source, { recursive: true, force: true });
    }
  }
  const { files, source } = await readManifest(pack);
  return { pack, fingerprint: hashOfFiles(files), weights: source.weights };
}

/** A checkpoint is read once. If memory is plentiful, keeping it there saves disk and time. */
function checkpointInMemory(bytes: number): string | undefined {
  const files = '/dev/shm';
  if (bytes < BIG_CHECKPOINT || !existsSync(files)) return undefined;
  const { bavail, bsize } = statfsSync(files);
  const room = Math.min(bavail * bsize, freemem() / 2);
  return room >= 1.1 * bytes ? join(files, `sida-bench-${process.pid}`) : undefined;
}

async function makeCheckpoint(
  { name, shape, dtype }: BenchModel,
  out: string,
  { onStep, signal }: Maker,
): Promise<void> {
  onStep(`${name}: writing random weights (${formatBytes(diskNeed({ name, shape, dtype, weights: 'random', maxBatchTokens: 0 }).checkpoint)})`); // biome-ignore format: one line
  rmSync(out, { recursive: true, force: true });
  const { experts, layers, dModel, dFf, heads, vocab } = shape;
  const flags = { experts, layers, vocab, heads, 'd-model': dModel, 'd-ff': dFf };
  const sizes = Object.entries(flags).flatMap(([flag, value]) => [`--${flag}`, String(value)]);
  // Quantized packs are made from bf16: it takes half the disk, and loses far less than quantization does.
  const stored = dtype === 'f32' ? 'f32' : 'bf16';
  await makeSwitchCheckpoint(out, ['--dtype', stored, ...sizes], signal);
  for (const file of ['tokenizer.json', 'sida.json']) {
    copyFileSync(join(MINI_DIRECTORY, file), join(out, file));
  }
}

/** Records where the routers of a pack send the texts. Returns the directory of the trace. */
export async function traceOf(
  { pack, fingerprint }: PreparedModel,
  { name, template }: Pick<BenchInputs, 'name' | 'template'>,
  texts: readonly string[],
  maxBatchTokens: number,
  { work, threads, device, signal, onStep }: Maker,
): Promise<string> {
  const key = shortHash(fingerprint, template, ...(device === undefined ? [] : [device]), ...texts);
  const directory = join(work, 'traces', `${name}-${key}`);
  if (existsSync(join(directory, 'trace.json')) && (await readMeta(directory)).complete) return directory;
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(join(work, 'traces'), { recursive: true });
  const file = join(work, 'traces', `${name}-${key}.jsonl`);
  writeFileSync(file, texts.map((text) => JSON.stringify({ text })).join('\n'));
  onStep(`tracing ${texts.length} inputs of ${name}`);
  const args = [
    ...['trace', pack, '--data', file, '--template', '{text}', '--out', directory],
    ...['--max-new-tokens', '1', '--memory-budget', '100%', '--threads', String(threads)],
    ...['--max-batch-tokens', String(maxBatchTokens), '--device', device ?? 'cpu'],
  ];
  await sida(args, { signal });
  return directory;
}

/** Why a system cannot run: it needs a kind of network that the model's own predictor lacks. */
export async function missingNetwork(model: BenchModel, system: string): Promise<string | undefined> {
  const kind = NETWORK_NAMES.find((name) => name === system);
  if (kind === undefined || model.name !== SWITCH_MINI.name) return undefined;
  const { networks } = await readPredictorManifest(MINI_PREDICTOR);
  return networks[kind] === undefined ? `${model.name}'s predictor has no ${kind} network` : undefined;
}

/** The predictor of a pack: switch-mini's own, or one of both kinds trained on the traces. */
export async function predictorOf(
  model: BenchModel,
  { fingerprint }: PreparedModel,
  traces: readonly string[],
  minutes: number,
  { work, threads, seed, signal, onStep }: Maker,
): Promise<string> {
  if (model.name === SWITCH_MINI.name) return MINI_PREDICTOR;
  const key = shortHash(fingerprint, String(minutes), String(seed), ...traces);
  const directory = join(work, model.name, `predictor-${key}`);
  for (const network of NETWORK_NAMES) {
    onStep(`${model.name}: training ${network} networks, at most ${minutes} minutes`);
    const args = [
      ...['train', ...traces, '--out', directory, '--network', network, '--seed', String(seed)],
      ...['--max-minutes', String(minutes), '--threads', String(threads)],
    ];
    // Ends at once where the directory holds them.
    await sida(args, { signal });
  }
  return directory;
}

/** Frees the disk that a model of random weights takes. Its traces stay. */
export function removeModel(model: BenchModel, work: string): void {
  if (model.weights === 'random') rmSync(join(work, model.name, 'pack'), { recursive: true, force: true });
}

export function shortHash(...parts: string[]): string {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(`${part.length}:`).update(part);
  return hash.digest('hex').slice(0, 12);
}
