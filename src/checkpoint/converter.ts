import { closeSync, existsSync } from 'node:fs';
import { open, readdir, rename, rm, truncate } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { setImmediate as yieldToEvents } from 'node:timers/promises';
import { SidaError } from '../errors.js';
import { requireSpace } from '../files/disk-space.js';
import { makeDirectory } from '../files/make-directory.js';
import { loadAddon } from '../native/addon.js';
import type { PackLayout, PackWriter } from '../native/addon-types.js';
import { expertsIn } from '../native/model-shape.js';
import { formatBytes } from '../text/bytes.js';
import { type CheckpointSource, readSource } from './checkpoint-source.js';
import { JOURNAL, type Journal, resumable, sameWork, writeJournal } from './conversion-journal.js';
import { exchangeTexts, restoreExchanged } from './exchange-texts.js';
import { FileHashes } from './file-hashes.js';
import { modelName } from './gguf/gguf-path.js';
import { isInPlace, linkGguf } from './in-place.js';
import { inspectModel } from './inspect-model.js';
import { leftOut } from './left-out.js';
import { type LockOptions, type LockWait, withLock } from './lock-file.js';
import {
  isPack,
  openPackFile,
  PACK_VERSION,
  type PackFile,
  readManifest,
  verifyPack,
  writeManifest,
} from './manifest.js';
import { writeTexts } from './texts.js';
import { type FormatChoices, formatName, resolveFormats } from './weight-format.js';

interface ConvertOptions extends FormatChoices {
  /** Hugging Face checkpoint directory, or a GGUF file. */
  model: string;
  /** Directory of the pack. It appears complete or not at all. */
  out: string;
  /** Known hashes of files. Default: none, so that the checkpoint is read once more. */
  hashes?: FileHashes;
  /** Counts bytes while hashing the checkpoint, then experts while converting, then bytes of the pack. */
  onProgress?: (progress: { phase: 'convert' | 'hash'; done: number; total: number }) => void;
  /** Leave the experts in the GGUF file, as CheckpointInfo.keepsExperts allows. */
  inPlace?: boolean;
  /** Called with lines to show: the size and the place of the pack, and now and then the wait for another process. */
  onLine?: (line: string) => void;
}

interface ConvertResult {
  pack: string;
  /** Experts that an earlier run had already written. 0 for a new conversion. */
  resumedFrom: number;
}

/**
 * Packs a checkpoint. The files are written to `<out>.partial`, where a later run finds them after an interruption,
 * and the directory is renamed when it is complete. Waits while another process converts to `out`.
 */
export function convertCheckpoint(options: ConvertOptions): Promise<ConvertResult> {
  const out = resolve(options.out);
  return withLock(
    `${out}.lock`,
    () => convertLocked({ ...options, model: resolve(options.model), out }),
    lockOptions(out, options),
  );
}

/** Passes news of a wait for the conversion to `out` on as a line. */
export function lockOptions(out: string, { onLine }: Pick<ConvertOptions, 'onLine'>): LockOptions {
  return onLine === undefined ? {} : { onWait: (wait) => onLine(waitLine(out, wait)) };
}

function waitLine(out: string, { pid, seconds }: LockWait): string {
  const holder = pid === undefined ? '' : ` by process ${pid} (of its own pid namespace)`;
  return `Waits for another conversion to ${basename(out)}${holder}, for ${seconds} s`;
}

async function convertLocked(options: ConvertOptions): Promise<ConvertResult> {
  const { model, out, inPlace = false, hashes = FileHashes.inMemory(), onProgress, onLine } = options;
  if (isPack(model)) {
    throw new SidaError({
      code: 'cannot_run',
      message: `${model} is packed already; convert the checkpoint that it was made from`,
    });
  }
  const addon = loadAddon();
  const info = inspectModel(model);
  const source = await readSource(model, info, { hashes, ...(onProgress && { onProgress }) });
  const { weights } = source;
  const plan: Journal = {
    version: PACK_VERSION,
    weights,
    ...resolveFormats(options, info.lossless),
    done: 0,
  };
  await restoreExchanged(out);
  if (existsSync(out)) {
    await keepOrRefuse(out, plan, source, { model, hashes });
    return { pack: out, resumedFrom: info.shape.firstExperts.at(-1)! };
  }

  const partial = `${out}.partial`;
  makeDirectory(partial, 0o700);
  const { experts, dense } = plan;
  const writer = new addon.PackWriter({
    checkpoint: model,
    out: partial,
    experts,
    dense,
    inPlace,
  });
  const { layout } = writer;
  const files = weightFiles(writer);
  let resumedFrom: number;
  try {
    const { bytes, free } = requireSpace(partial, files);
    const stays = inPlace
      ? `The experts of ${modelName(model)} stay in ${model}; packs`
      : `Packs ${modelName(model)}:`;
    const parts = leftOut(model, info.others);
    if (parts !== undefined) onLine?.(parts);
    onLine?.(`${stays} ${formatBytes(bytes)} into ${out}, where ${formatBytes(free)} are free`);
    resumedFrom = await writeWeights(writer, partial, plan, options);
  } finally {
    writer.close();
  }
  if ((await readSource(model, info, { hashes })).weights !== weights) {
    throw new SidaError({
      code: 'checkpoint_invalid',
      message: `${model} changed while it was converted; convert it again`,
    });
  }
  if (inPlace) await linkGguf(partial, model);
  await describePack(partial, layout, files, source, { ...options, hashes });
  await rename(partial, out);
  return { pack: out, resumedFrom };
}

interface SizedFile {
  name: string;
  bytes: number;
}

/** The weight files of a pack with their final sizes. */
function weightFiles(writer: PackWriter): SizedFile[] {
  const { layout } = writer;
  const { experts, dense } = layout;
  const files = [{ name: dense.file, bytes: dense.bytes }];
  if (isInPlace(layout)) return files;
  const bytes = writer.expertBytes(expertsIn(experts));
  return [...files, { name: experts.file, bytes }];
}

async function syncFile(path: string): Promise<void> {
  const file = await open(path, 'r+');
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Writes the dense file and the remaining experts. Returns the number of experts that an earlier run had written. */
async function writeWeights(
  writer: PackWriter,
  partial: string,
  plan: Journal,
  { onProgress }: ConvertOptions,
): Promise<number> {
  const { experts } = writer.layout;
  const files = isInPlace(writer.layout) ? [] : [experts.file];
  const resumedFrom = await resumable(partial, plan, writer);
  const total = expertsIn(experts);
  // A journal entry costs an fsync of each file, so write one for about 256 MiB of experts.
  const stride = Math.max(1, Math.floor((256 << 20) / experts.block_bytes));
  const piece = Math.max(1, Math.floor((16 << 20) / experts.block_bytes));
  if (resumedFrom === 0) {
    // Other files here are left over from another conversion.
    for (const name of await readdir(partial)) {
      if (!files.includes(name)) await rm(join(partial, name), { recursive: true, force: true });
    }
    for (const name of files) await truncate(join(partial, name), 0);
    writer.writeDense();
  }
  let synced = resumedFrom;
  for (let done = resumedFrom; done < total; ) {
    const end = Math.min(total, done + piece);
    writer.writeExperts(done, end);
    done = end;
    onProgress?.({ phase: 'convert', done, total });
    if (done - synced >= stride) {
      for (const name of files) await syncFile(join(partial, name));
      await writeJournal(partial, { ...plan, done });
      synced = done;
    }
    await yieldToEvents();
  }
  return resumedFrom;
}

/** Writes the texts, hashes the weights and writes the manifest, which makes the directory a pack. */
async function describePack(
  partial: string,
  layout: PackLayout,
  sizes: readonly SizedFile[],
  { weights, texts, description }: CheckpointSource,
  { model, onProgress, hashes }: ConvertOptions & { hashes: FileHashes },
): Promise<void> {
  const total = sizes.reduce((sum, { bytes }) => sum + bytes, 0);
  let hashed = 0;
  const onBytes = (count: number) => {
    hashed += count;
    onProgress?.({ phase: 'hash', done: Math.min(hashed, total), total });
  };
  const files: PackFile[] = [];
  for (const { name, bytes } of sizes) {
    const path = join(partial, name);
    const { fd, size } = openPackFile(partial, name);
    try {
      if (size !== bytes) {
        const message = `${path}: size: expected ${bytes} bytes, found ${size}; convert again`;
        throw new SidaError({ code: 'io_error', message });
      }
      const sha256 = await hashes.read(fd, path, { onBytes });
      hashes.record(fd, sha256);
      files.push({ name, bytes, sha256 });
    } finally {
      closeSync(fd);
    }
  }
  files.push(...(await writeTexts(partial, texts)));
  const source = { name: modelName(model), weights, ...(description && { description }) };
  await writeManifest(partial, { format: 'sida-pack', version: PACK_VERSION, source, ...layout, files });
  await rm(join(partial, JOURNAL), { force: true });
}

/**
 * Keeps a finished pack of the same weights and types, with the checkpoint's present texts. Throws cannot_run when
 * `out` holds anything else.
 */
async function keepOrRefuse(
  out: string,
  plan: Journal,
  source: CheckpointSource,
  options: { model: string; hashes: FileHashes },
): Promise<void> {
  if (await holdsPack(out, plan)) {
    // A pack whose files are missing or short is not complete.
    await verifyPack(out, { maxBytes: 0 });
    await exchangeTexts(out, source, options);
    return;
  }
  throw new SidaError({
    code: 'cannot_run',
    message: `${out} exists already and is not a pack of this model in ${formatName(plan.experts)} (dense ${formatName(plan.dense)}); name another --out or remove it`,
  });
}

/** Whether `out` holds a pack of this version with the settings of `plan`. */
async function holdsPack(out: string, plan: Journal): Promise<boolean> {
  if (!isPack(out)) return false;
  const manifest = await readManifest(out).catch((error: unknown) => {
    if (error instanceof SidaError && error.code === 'pack_invalid') return undefined;
    throw error;
  });
  if (manifest === undefined) return false;
  const { version, source, experts, dense } = manifest;
  return sameWork({ version, weights: source.weights, experts, dense, done: 0 }, plan);
}
