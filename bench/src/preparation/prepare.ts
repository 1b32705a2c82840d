/** Makes the packs, traces and predictors that measurements need in a work directory, and uses existing ones again. */
import { createHash } from 'node:crypto';
import { copyFileSync, mkdirSync, rmSync, statfsSync } from 'node:fs';
import { join } from 'node:path';
import { readSource } from '../../../dist/checkpoint/checkpoint-source.js';
import { FileHashes } from '../../../dist/checkpoint/file-hashes.js';
import { hashOfFiles } from '../../../dist/checkpoint/identity.js';
import { isPack, readManifest } from '../../../dist/checkpoint/manifest.js';
import { SidaError } from '../../../dist/errors.js';
import { loadAddon } from '../../../dist/native/addon.js';
import type { DeviceName } from '../../../dist/native/addon-types.js';
import { NETWORK_NAMES } from '../../../dist/protocol/predictor-messages.js';
import { formatBytes } from '../../../dist/text/bytes.js';
import { type BenchModel, checkpointOf, diskNeed } from '../scenarios/models.js';
import { MINI_DIRECTORY, SCRIPTS } from '../support/paths.js';
import { makeSwitchCheckpoint, run, sida } from '../support/processes.js';
import { words } from '../support/script.js';

export interface PreparedModel {
  pack: string;
  fingerprint: string;
  /** Identity of the model's weights; of a padded model those of its checkpoint, which route as they do. */
  weights: string;
}

export interface Maker {
  /** Directory of everything that is made. */
  work: string;
  threads: number;
  /** Device on which traces are recorded; default cpu. */
  device?: DeviceName | undefined;
  /** Stops the work in progress. */
  signal?: AbortSignal | undefined;
  /** Reports the current step. */
  onStep: (what: string) => void;
}

/** Throws cannot_run with the bytes needed and free. */
function checkRoom(directory: string, needed: number, what: string): void {
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
    checkRoom(directory, packed + checkpoint, model.name);
    const made = isMade(model);
    const source = made ? join(directory, 'checkpoint') : checkpointOf(model);
    try {
      if (made) await makeCheckpoint(model, source, maker);
      onStep(`${model.name}: packing (${formatBytes(packed)})`);
      await sida(['convert', source, '--out', pack, '--experts', model.dtype], { signal });
    } finally {
      if (made) rmSync(source, { recursive: true, force: true });
    }
  }
  const { files, source } = await readManifest(pack);
  const weights = model.expertBytes === undefined ? source.weights : await bundledWeights(model);
  return { pack, fingerprint: hashOfFiles(files), weights };
}

/** What the bundled predictor names, so that it is opened without a warning for a padded model too. */
async function bundledWeights(model: BenchModel): Promise<string> {
  const checkpoint = checkpointOf(model);
  const info = loadAddon().inspectCheckpoint(checkpoint);
  return (await readSource(checkpoint, info, { hashes: FileHashes.inMemory() })).weights;
}

/** Whether its checkpoint is made here, and removed with its pack. */
function isMade({ weights, expertBytes }: BenchModel): boolean {
  return weights === 'random' || expertBytes !== undefined;
}

async function makeCheckpoint(model: BenchModel, out: string, { onStep, signal }: Maker): Promise<void> {
  const { name, shape, dtype, expertBytes } = model;
  const what = expertBytes === undefined ? 'random weights' : `experts of ${expertBytes} with zeros`;
  onStep(`${name}: writing ${what} (${formatBytes(diskNeed(model).checkpoint)})`);
  rmSync(out, { recursive: true, force: true });
  if (expertBytes !== undefined) {
    const script = `${SCRIPTS}pad-experts.mjs`;
    const args = words`${script} --model ${checkpointOf(model)} --out ${out} --expert-bytes ${expertBytes}`;
    await run(process.execPath, args, { signal });
    return;
  }
  const { experts, layers, dModel, dFf, heads, vocab } = shape;
  const sizes = words`--experts ${experts} --layers ${layers} --vocab ${vocab} --heads ${heads}`;
  const widths = words`--d-model ${dModel} --d-ff ${dFf}`;
  // Quantized packs are made from bf16: it takes half the disk, and loses far less than quantization does.
  const stored = dtype === 'f32' ? 'f32' : 'bf16';
  await makeSwitchCheckpoint(out, ['--dtype', stored, ...sizes, ...widths], signal);
  for (const file of ['tokenizer.json', 'sida.json']) {
    copyFileSync(join(MINI_DIRECTORY, file), join(out, file));
  }
}

function bundledPredictor(model: BenchModel): string {
  return join(checkpointOf(model), 'predictor');
}

/** The predictor of a pack: the bundled one, of a padded model too, or one of both kinds trained on the traces. */
export async function predictorOf(
  model: BenchModel,
  { fingerprint }: PreparedModel,
  traces: readonly string[],
  epochs: number,
  { work, threads, signal, onStep }: Maker,
): Promise<string> {
  if (model.folder !== undefined) return bundledPredictor(model);
  const key = shortHash(fingerprint, String(epochs), ...traces);
  const directory = join(work, model.name, `predictor-${key}`);
  for (const network of NETWORK_NAMES) {
    onStep(`${model.name}: training ${network} networks`);
    const args = words`--out ${directory} --network ${network} --epochs ${epochs} --threads ${threads}`;
    // Ends at once where the directory holds them.
    await sida(['train', ...traces, ...args], { signal });
  }
  return directory;
}

/** Frees the disk that a made model takes. Its traces stay. */
export function removeModel(model: BenchModel, work: string): void {
  if (isMade(model)) rmSync(join(work, model.name, 'pack'), { recursive: true, force: true });
}

export function shortHash(...parts: string[]): string {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(`${part.length}:`).update(part);
  return hash.digest('hex').slice(0, 12);
}
