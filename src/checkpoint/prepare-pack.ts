import { rm } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { SidaError } from '../errors.js';
import { loadAddon } from '../native/addon.js';
import type { ExpertDtype } from '../native/addon-types.js';
import { convertCheckpoint } from './converter.js';
import { checkpointIdentity, packFingerprint } from './identity.js';
import { isPack, readManifest, verifyPack } from './manifest.js';

/** Files up to this size are compared with their sha256 at every start; larger ones by `sida convert --verify`. */
const VERIFY_AT_START_BYTES = 512 << 20;

export interface PrepareOptions {
  /** Checkpoint or pack. */
  model: string;
  /** Where packs of checkpoints are kept. */
  packDir: string;
  experts: 'auto' | ExpertDtype;
  signal?: AbortSignal;
  onProgress?: (progress: { phase: 'convert' | 'hash'; done: number; total: number }) => void;
}

export interface PreparedPack {
  pack: string;
  name: string;
  /** See packFingerprint. */
  fingerprint: string;
}

/** Gives the pack of a model, converting a checkpoint on its first use. */
export async function preparePack(options: PrepareOptions): Promise<PreparedPack> {
  const model = resolve(options.model);
  if (isPack(model)) return checked(model, options);
  const info = loadAddon().inspectCheckpoint(model);
  const identity = await checkpointIdentity(model, info);
  const experts = options.experts === 'auto' ? info.lossless.experts : options.experts;
  const out = join(options.packDir, `${basename(model)}-${experts}-${identity.slice(0, 16)}`);
  if (isPack(out)) {
    try {
      return await checked(out, options);
    } catch (error) {
      // The cache is ours: what is broken in it is made again.
      if (!(error instanceof SidaError && error.code === 'pack_invalid')) throw error;
      await rm(out, { recursive: true, force: true });
    }
  }
  await convertCheckpoint({ ...options, model, out, dense: 'auto' });
  return checked(out, options);
}

async function checked(pack: string, { signal }: PrepareOptions): Promise<PreparedPack> {
  const manifest = await readManifest(pack);
  await verifyPack(pack, { maxBytes: VERIFY_AT_START_BYTES, ...(signal && { signal }) });
  return { pack, name: manifest.source.name, fingerprint: packFingerprint(manifest.files) };
}
