import { existsSync } from 'node:fs';
import { copyFile, mkdir, open, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { setImmediate as yieldToEvents } from 'node:timers/promises';
import { SidaError } from '../errors.js';
import { loadAddon } from '../native/addon.js';
import type { ExpertDtype } from '../native/addon-types.js';
import { checkpointIdentity } from './identity.js';
import { hashFile, isPack, PACK_VERSION, readManifest, writeManifest } from './manifest.js';

export interface ConvertOptions {
  /** Hugging Face checkpoint directory. */
  model: string;
  /** Directory of the pack; appears whole or not at all. */
  out: string;
  experts: 'auto' | ExpertDtype;
  dense: 'auto' | ExpertDtype;
  signal?: AbortSignal;
  /** Experts written, then bytes hashed. */
  onProgress?: (progress: { phase: 'convert' | 'hash'; done: number; total: number }) => void;
}

export interface ConvertResult {
  pack: string;
  /** Experts that an interrupted earlier run had written; 0 for a fresh one. */
  resumedFrom: number;
}

/** Files that make a pack a model directory of its own. */
const COMPANIONS = ['config.json', 'generation_config.json', 'tokenizer.json', 'sida.json'];
/** What an unfinished pack is made of, and how far it got; written after each piece reached the disk. */
const JOURNAL = 'journal.json';

interface Journal {
  identity: string;
  experts: ExpertDtype;
  dense: ExpertDtype;
  /** Experts written and synced. */
  done: number;
}

function sameWork(a: Journal, b: Journal): boolean {
  return a.identity === b.identity && a.experts === b.experts && a.dense === b.dense;
}

async function readJournal(partial: string): Promise<Journal | undefined> {
  try {
    return JSON.parse(await readFile(join(partial, JOURNAL), 'utf8')) as Journal;
  } catch {
    return undefined;
  }
}

async function syncFile(path: string): Promise<void> {
  const file = await open(path, 'r+');
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}

async function writeJournal(partial: string, journal: Journal): Promise<void> {
  await writeFile(join(partial, `${JOURNAL}.tmp`), JSON.stringify(journal));
  await rename(join(partial, `${JOURNAL}.tmp`), join(partial, JOURNAL));
}

/** Packs a checkpoint. Work goes to `<out>.partial`, survives an interruption there, and is renamed when whole. */
export async function convertCheckpoint(options: ConvertOptions): Promise<ConvertResult> {
  const { signal } = options;
  const model = resolve(options.model);
  const out = resolve(options.out);
  const addon = loadAddon();
  const info = addon.inspectCheckpoint(model);
  const identity = await checkpointIdentity(model, info);
  const plan: Journal = {
    identity,
    experts: options.experts === 'auto' ? info.lossless.experts : options.experts,
    dense: options.dense === 'auto' ? info.lossless.dense : options.dense,
    done: 0,
  };
  if (existsSync(out)) {
    await refuseForeign(out, identity);
    return { pack: out, resumedFrom: info.shape.moeLayers.length * info.shape.experts };
  }

  const partial = `${out}.partial`;
  const earlier = await readJournal(partial);
  const resume = earlier !== undefined && sameWork(earlier, plan) ? earlier.done : 0;
  if (resume === 0) await rm(partial, { recursive: true, force: true });
  await mkdir(partial, { recursive: true });

  const writer = new addon.PackWriter({
    checkpoint: model,
    out: partial,
    experts: plan.experts,
    dense: plan.dense,
  });
  const { layout } = writer;
  const total = layout.experts.layers.length * layout.experts.experts_per_layer;
  try {
    const expertFile = join(partial, layout.experts.file);
    // A journal entry costs an fsync: one for about 256 MiB of experts.
    const stride = Math.max(1, Math.floor((256 << 20) / layout.experts.block_bytes));
    const piece = Math.max(1, Math.floor((16 << 20) / layout.experts.block_bytes));
    if (resume === 0) writer.writeDense();
    let synced = resume;
    for (let done = resume; done < total; ) {
      signal?.throwIfAborted();
      const end = Math.min(total, done + piece);
      writer.writeExperts(done, end);
      done = end;
      options.onProgress?.({ phase: 'convert', done, total });
      if (done - synced >= stride) {
        await syncFile(expertFile);
        await writeJournal(partial, { ...plan, done });
        synced = done;
      }
      await yieldToEvents();
    }
  } finally {
    writer.close();
  }

  const names = [layout.dense.file, layout.experts.file];
  for (const companion of COMPANIONS) {
    if (!existsSync(join(model, companion))) continue;
    await copyFile(join(model, companion), join(partial, companion));
    names.push(companion);
  }
  const bytes = total * layout.experts.block_bytes + layout.dense.bytes;
  let hashed = 0;
  const files = [];
  for (const name of names) {
    const onBytes = (count: number) => {
      hashed += count;
      options.onProgress?.({ phase: 'hash', done: Math.min(hashed, bytes), total: bytes });
    };
    files.push(await hashFile(partial, name, onBytes, signal));
  }
  await writeManifest(partial, {
    format: 'sida-pack',
    version: PACK_VERSION,
    source: { name: basename(model), identity },
    ...layout,
    files,
  });
  await rm(join(partial, JOURNAL), { force: true });
  await mkdir(dirname(out), { recursive: true });
  await rename(partial, out);
  return { pack: out, resumedFrom: resume };
}

/** A finished pack of the same weights is kept; anything else in its place is not ours to overwrite. */
async function refuseForeign(out: string, identity: string): Promise<void> {
  if (isPack(out) && (await readManifest(out)).source.identity === identity) return;
  throw new SidaError({
    code: 'cannot_run',
    message: `${out} exists already and is not a pack of this model; name another --out or remove it`,
  });
}
