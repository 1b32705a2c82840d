import { readdir, rename, rm } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { SidaError } from '../errors.js';
import { makeDirectory } from '../files/make-directory.js';
import type { PackFormats } from '../native/addon-types.js';
import { type ChatTemplates, readChatTemplates } from '../text/chat/template-files.js';
import { withBeginToken } from '../text/tokenizing/begin-token.js';
import { isTemporary } from './cache-names.js';
import { checkTensors } from './check-tensors.js';
import { type CheckpointSource, readSource } from './checkpoint-source.js';
import { convertCheckpoint, lockOptions } from './converter.js';
import { hashOfTextFiles, hashOfTexts, packWithTexts } from './exchange-texts.js';
import { FileHashes, READ_AT_START_BYTES } from './file-hashes.js';
import { fileName, modelName } from './gguf/gguf-path.js';
import { hashOfFiles, type ModelIdentity, modelIdentity } from './identity.js';
import { isInPlace, linkGguf } from './in-place.js';
import { inspectModel } from './inspect-model.js';
import { withLock } from './lock-file.js';
import { isPack, readManifest, verifyPack } from './manifest.js';
import { holdPack, keepPack, recordUse } from './pack-use.js';
import { parseTasks, type Tasks } from './tasks.js';
import {
  type FormatChoice,
  type FormatChoices,
  formatFlags,
  formatName,
  resolveFormat,
  resolveFormats,
  sameFormat,
} from './weight-format.js';

export interface PrepareOptions {
  /** Directory of a checkpoint or a pack, or a GGUF file. */
  model: string;
  /** Directory that caches packs of checkpoints, and hashes. */
  packDir: string;
  experts: FormatChoice;
  /** Default `auto`. */
  dense?: FormatChoice;
  /** Read every weight, and throw pack_invalid for one that is NaN or infinite. */
  checkTensors?: boolean;
  onProgress?: (progress: { phase: 'convert' | 'hash'; done: number; total: number }) => void;
  /** Called with lines to show: where a pack is made and its size, and that another process converts the same model. */
  onLine?: (line: string) => void;
}

export interface PreparedPack {
  pack: string;
  name: string;
  /** Hash of everything in the pack. Equal fingerprints give equal answers. */
  fingerprint: string;
  identity: ModelIdentity;
  formats: PackFormats;
  tasks: Tasks;
  /** The verified tokenizer.json. Undefined if the model has none. */
  tokenizer: Buffer | undefined;
  /** What the model's card says of it. */
  description: string | undefined;
  /** The verified generation_config.json. Undefined if the model has none. */
  generation: Buffer | undefined;
  /** Undefined if the model has no chat template. */
  chatTemplates: ChatTemplates | undefined;
}

/** The pack that a process serves already. */
export type ServedPack = Pick<PreparedPack, 'pack' | 'name' | 'fingerprint'>;

/** Returns the pack of a model. Converts a checkpoint on first use. */
export async function preparePack(options: PrepareOptions): Promise<PreparedPack> {
  const model = resolve(options.model);
  const hashes = FileHashes.open(options.packDir);
  try {
    const prepared = await preparedPack(model, hashes, options);
    if (options.checkTensors === true) await checkTensors(prepared.pack);
    return prepared;
  } finally {
    await hashes.save();
  }
}

async function preparedPack(
  model: string,
  hashes: FileHashes,
  options: PrepareOptions,
): Promise<PreparedPack> {
  if (!isPack(model)) return { ...(await packOf(model, hashes, options)), name: modelName(model) };
  const { experts, dense = 'auto' } = options;
  await preparedFormats(model, { experts, dense });
  return openPack(model, hashes, options);
}

/**
 * Opens the pack that this process has served before, whatever has become of its checkpoint, so that a restarted
 * engine gives the same answers. Throws cannot_run when the pack is gone and the model now has another.
 */
export async function reopenPack(served: ServedPack, options: PrepareOptions): Promise<PreparedPack> {
  const { pack, name, fingerprint } = served;
  const prepared = await preparePack({ ...options, model: pack }).catch((error: unknown) => {
    if (!isPack(pack) || isDamage(error)) return preparePack(options);
    throw error;
  });
  if (prepared.fingerprint === fingerprint) return { ...prepared, name };
  const message = `${options.model} changed while it was served: expected fingerprint ${fingerprint}, found ${prepared.fingerprint}; start again to serve it as it is now`;
  throw new SidaError({ code: 'cannot_run', message });
}

/** Throws cannot_run when another pack has taken the place of the one that was prepared. */
export async function checkSamePack({
  pack,
  fingerprint,
}: Pick<PreparedPack, 'pack' | 'fingerprint'>): Promise<void> {
  const found = fingerprintOf(await readManifest(pack));
  if (found === fingerprint) return;
  const message = `${pack} changed while it was opened: expected fingerprint ${fingerprint}, found ${found}; start again`;
  throw new SidaError({ code: 'cannot_run', message });
}

/** Finds or makes the pack of a checkpoint in the cache. */
async function packOf(model: string, hashes: FileHashes, options: PrepareOptions): Promise<PreparedPack> {
  const { packDir, experts, dense = 'auto', onProgress } = options;
  const info = inspectModel(model);
  const source = await readSource(model, info, { hashes, ...(onProgress && { onProgress }) });
  // An error in the tasks shows before a conversion that may take minutes.
  parseTasks(source.texts.get('sida.json'), join(model, 'sida.json'));
  const formats = resolveFormats({ experts, dense }, info.lossless);
  const wanted: WantedPack = { packDir, names: packNames(formats, info.lossless, source), formats, source };
  const open = async (pack: string): Promise<PreparedPack> => {
    // The file may have been moved.
    if (isInPlace(await readManifest(pack))) await linkGguf(pack, model);
    const prepared = await openPack(pack, hashes, options);
    await recordUse(pack, model);
    // A pack that other checkpoints of these weights and texts share has the card of the first.
    return { ...prepared, description: source.description };
  };
  const openExact = () => firstSound(wanted, 'exact', open);
  makeDirectory(packDir, 0o700);
  const make = async (): Promise<PreparedPack> => {
    const found = await openExact();
    if (found !== undefined) return found;
    const out = join(packDir, `${fileName(model)}-${wanted.names.exact}`);
    // The pack directory is a cache, so a damaged pack is made again.
    await rm(out, { recursive: true, force: true });
    const shared = await firstSound(wanted, 'weights', async (donor) => {
      const hold = await holdPack(donor);
      try {
        await packWithTexts(donor, out, source, { model, hashes });
      } finally {
        hold?.release();
      }
      return open(out);
    });
    if (shared !== undefined) return shared;
    await rm(out, { recursive: true, force: true });
    await adoptUnfinished(wanted, out);
    // Where the layout allows it, the experts of a GGUF file are not written a second time.
    const inPlace = info.keepsExperts && sameFormat(formats.experts, info.lossless.experts);
    await convertCheckpoint({ ...options, model, out, ...formats, hashes, inPlace });
    return open(out);
  };
  const lock = `${join(packDir, wanted.names.weights)}.lock`;
  return (await openExact()) ?? withLock(lock, make, lockOptions(wanted.names.weights, options));
}

interface WantedPack {
  packDir: string;
  /** Ends of directory names: those of all packs with these weights and types, and of the one with these texts too. */
  names: { weights: string; exact: string };
  formats: PackFormats;
  source: CheckpointSource;
}

function packNames(formats: PackFormats, lossless: PackFormats, { weights, texts }: CheckpointSource) {
  const packed = `${formatsName(formats, lossless)}-${weights.slice(0, 16)}`;
  return { weights: packed, exact: `${packed}-${hashOfTexts(texts).slice(0, 16)}` };
}

/**
 * Opens the first cached pack of the wanted weights and types that is sound. A checkpoint that was moved finds its
 * pack under the old name.
 */
async function firstSound(
  { packDir, names, formats, source }: WantedPack,
  which: keyof WantedPack['names'],
  open: (pack: string) => Promise<PreparedPack>,
): Promise<PreparedPack | undefined> {
  for (const entry of await readdir(packDir)) {
    const named =
      which === 'exact' ? entry.endsWith(`-${names.exact}`) : entry.includes(`-${names.weights}-`);
    const pack = join(packDir, entry);
    if (!named || isTemporary(entry) || !isPack(pack)) continue;
    try {
      const found = await readManifest(pack);
      const same =
        found.source.weights === source.weights &&
        sameFormat(found.experts, formats.experts) &&
        sameFormat(found.dense, formats.dense) &&
        (which === 'weights' || hashOfTextFiles(found.files) === hashOfTexts(source.texts));
      if (same) return await open(pack);
    } catch (error) {
      // Another pack may be sound.
      if (!isDamage(error)) throw error;
    }
  }
  return undefined;
}

/** Lets `out` continue the conversion of the same weights that was begun under another name or with other texts. */
async function adoptUnfinished({ packDir, names }: WantedPack, out: string): Promise<void> {
  const unfinished = (await readdir(packDir)).filter(
    (entry) => entry.includes(`-${names.weights}-`) && entry.endsWith('.partial'),
  );
  const own = `${out}.partial`;
  if (unfinished.length === 0 || unfinished.includes(basename(own))) return;
  await rename(join(packDir, unfinished[0]!), own);
}

function isDamage(error: unknown): boolean {
  return error instanceof SidaError && error.code === 'pack_invalid';
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
  return formatsOf(manifest);
}

/** Opens a pack, and keeps it from being removed while this process lives. */
async function openPack(pack: string, hashes: FileHashes, options: PrepareOptions): Promise<PreparedPack> {
  const hold = await holdPack(pack);
  try {
    const prepared = await verifiedPack(pack, hashes, options);
    keepPack(pack, hold);
    return prepared;
  } catch (error) {
    hold?.release();
    throw error;
  }
}

/** A manifest says more of its experts. */
function formatsOf({ experts, dense }: PackFormats): PackFormats {
  const only = ({ dtype, group }: PackFormats['dense']) => ({ dtype, ...(group !== undefined && { group }) });
  return { experts: only(experts), dense: only(dense) };
}

/** The hash of all files, and of the weights of a GGUF file in which the experts stay. */
function fingerprintOf(manifest: Awaited<ReturnType<typeof readManifest>>): string {
  const { files, source } = manifest;
  return hashOfFiles(
    isInPlace(manifest) ? [...files, { name: 'experts.gguf', sha256: source.weights }] : files,
  );
}

async function verifiedPack(
  pack: string,
  hashes: FileHashes,
  { onProgress }: PrepareOptions,
): Promise<PreparedPack> {
  const { manifest, texts } = await verifyPack(pack, {
    maxBytes: READ_AT_START_BYTES,
    hashes,
    ...(onProgress && { onProgress }),
  });
  const { source, files } = manifest;
  return {
    pack,
    name: source.name,
    fingerprint: fingerprintOf(manifest),
    identity: modelIdentity(source.weights, files),
    formats: formatsOf(manifest),
    tasks: parseTasks(texts.get('sida.json'), join(pack, 'sida.json')),
    tokenizer: withBeginToken(texts.get('tokenizer.json'), texts.get('tokenizer_config.json')),
    description: source.description,
    generation: texts.get('generation_config.json'),
    chatTemplates: readChatTemplates(texts.get('chat_template.jinja'), texts.get('tokenizer_config.json')),
  };
}
