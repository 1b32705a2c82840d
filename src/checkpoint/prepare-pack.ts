import { basename, join, resolve } from 'node:path';
import { loadAddon } from '../native/addon.js';
import type { ExpertDtype } from '../native/addon-types.js';
import { convertCheckpoint } from './converter.js';
import { checkpointIdentity, packFingerprint } from './identity.js';
import { isPack, readManifest, verifyPack } from './manifest.js';

/** Packs up to this size are compared with their sha256 at every start; larger ones by `sida convert --verify`. */
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
  if (!isPack(out)) await convertCheckpoint({ ...options, model, out, dense: 'auto' });
  return checked(out, options);
}

async function checked(pack: string, options: PrepareOptions): Promise<PreparedPack> {
  const manifest = await readManifest(pack);
  const bytes = manifest.files.reduce((sum, file) => sum + file.bytes, 0);
  if (bytes <= VERIFY_AT_START_BYTES) {
    await verifyPack(pack, { ...(options.signal && { signal: options.signal }) });
  }
  return { pack, name: manifest.source.name, fingerprint: packFingerprint(manifest.files) };
}
