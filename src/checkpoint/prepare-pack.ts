import { rm } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { SidaError } from '../errors.js';
import { loadAddon } from '../native/addon.js';
import type { PackFormats } from '../native/addon-types.js';
import { checkTensors } from './check-tensors.js';
import { convertCheckpoint } from './converter.js';
import { checkpointIdentity, packFingerprint } from './identity.js';
import { isPack, readManifest, verifyPack } from './manifest.js';
import {
  type FormatChoice,
  type FormatChoices,
  formatFlags,
  formatName,
  resolveFormat,
  sameFormat,
} from './weight-format.js';

/** Files up to this size are hashed at every start. Only `sida convert --verify` hashes larger ones. */
const VERIFY_AT_START_BYTES = 512 << 20;

export interface PrepareOptions {
  /** Directory of a checkpoint or a pack. */
  model: string;
  /** Directory that caches packs of checkpoints. */
  packDir: string;
  experts: FormatChoice;
  /** Default `auto`. */
  dense?: FormatChoice;
  /** Read every weight, and throw pack_invalid for one that is NaN or infinite. */
  checkTensors?: boolean;
  signal?: AbortSignal;
  onProgress?: (progress: { phase: 'convert' | 'hash'; done: number; total: number }) => void;
  /** Called with a line to show, now and then, while another process converts the same model. */
  onWait?: (line: string) => void;
}

export interface PreparedPack {
  pack: string;
  name: string;
  /** See packFingerprint. */
  fingerprint: string;
}

/** Returns the pack of a model. Converts a checkpoint on first use. */
export async function preparePack(options: PrepareOptions): Promise<PreparedPack> {
  const model = resolve(options.model);
  const { experts, dense = 'auto' } = options;
  if (isPack(model)) {
    await preparedFormats(model, { experts, dense });
    return checked(model, options);
  }
  const info = loadAddon().inspectCheckpoint(model);
  const identity = await checkpointIdentity(model, info);
  const formats = {
    experts: resolveFormat(experts, info.lossless.experts),
    dense: resolveFormat(dense, info.lossless.dense),
  };
  const name = `${basename(model)}-${formatsName(formats, info.lossless)}-${identity.slice(0, 16)}`;
  const out = join(options.packDir, name);
  if (isPack(out)) {
    try {
      return await checked(out, options);
    } catch (error) {
      // The pack directory is a cache, so a damaged pack is made again.
      if (!(error instanceof SidaError && error.code === 'pack_invalid')) throw error;
      await rm(out, { recursive: true, force: true });
    }
  }
  await convertCheckpoint({ ...options, model, out, ...formats });
  return checked(out, options);
}

/** Names element types for a directory name. The dense type is left out when it is the lossless one. */
function formatsName({ experts, dense }: PackFormats, lossless: PackFormats): string {
  const rest = sameFormat(dense, lossless.dense) ? '' : `-dense-${formatName(dense)}`;
  return `${formatName(experts)}${rest}`;
}

/** The element types of a pack. Throws cannot_run when `choices` asks for others, which needs another conversion. */
export async function preparedFormats(pack: string, choices: FormatChoices): Promise<PackFormats> {
  const manifest = await readManifest(pack);
  for (const part of ['experts', 'dense'] as const) {
    const found = manifest[part];
    const wanted = resolveFormat(choices[part], found);
    if (sameFormat(wanted, found)) continue;
    throw new SidaError({
      code: 'cannot_run',
      message: `${pack} is packed with ${part} in ${formatName(found)}, not ${formatName(wanted)}; convert the checkpoint with --${part} ${formatFlags(wanted)}, or name what it has: --${part} ${formatFlags(found)}`,
    });
  }
  return { experts: manifest.experts, dense: manifest.dense };
}

async function checked(pack: string, options: PrepareOptions): Promise<PreparedPack> {
  const { signal } = options;
  const manifest = await readManifest(pack);
  await verifyPack(pack, { maxBytes: VERIFY_AT_START_BYTES, ...(signal && { signal }) });
  if (options.checkTensors === true) await checkTensors(pack, signal);
  return { pack, name: manifest.source.name, fingerprint: packFingerprint(manifest.files) };
}
