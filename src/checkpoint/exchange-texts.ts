/** Makes a pack of the same weights with other texts, without packing the weights again. */

import { closeSync, constants, existsSync } from 'node:fs';
import { copyFile, link, lstat, mkdir, readlink, rename, rm, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { CheckpointSource } from './checkpoint-source.js';
import type { FileHashes } from './file-hashes.js';
import { modelName } from './gguf/gguf-path.js';
import { hashOfFiles } from './identity.js';
import { isInPlace, linkGguf } from './in-place.js';
import {
  type Manifest,
  manifestParts,
  openPackFile,
  type PackFile,
  readManifest,
  writeManifest,
} from './manifest.js';
import { isTextName, sha256Of, type Texts, writeTexts } from './texts.js';

interface Options {
  model: string;
  hashes: FileHashes;
}

/** Makes the pack `out` from `donor`: the same weight files under another name, and the texts of `source`. */
export async function packWithTexts(
  donor: string,
  out: string,
  { texts, description }: CheckpointSource,
  { model, hashes }: Options,
): Promise<void> {
  const partial = `${out}.partial`;
  await rm(partial, { recursive: true, force: true });
  await mkdir(partial, { mode: 0o700 });
  const { files } = await readManifest(donor);
  // readManifest has checked the fields that this program reads; the others are copied as they are.
  const manifest = manifestParts(donor, z.custom<Manifest>())!;
  const weights = files.filter(({ name }) => !isTextName(name));
  for (const { name } of weights) {
    const { fd } = openPackFile(donor, name);
    try {
      await hashes.across(fd, () => shareFile(join(donor, name), join(partial, name)));
    } finally {
      closeSync(fd);
    }
  }
  if (isInPlace(manifest)) await linkGguf(partial, model);
  const { name: _, description: __, ...weightsOf } = manifest.source;
  const source = { ...weightsOf, name: modelName(model), ...(description && { description }) };
  const described = [...weights, ...(await writeTexts(partial, texts))];
  await writeManifest(partial, { ...manifest, source, files: described });
  await rename(partial, out);
}

/** A second name of the same file, or where the file system has no such thing, a copy. */
async function shareFile(from: string, to: string): Promise<void> {
  if ((await lstat(from)).isSymbolicLink()) return symlink(await readlink(from), to);
  try {
    await link(from, to);
  } catch {
    await copyFile(from, to, constants.COPYFILE_FICLONE);
  }
}

/** Gives the pack `out` the texts of `source` if its own differ. Processes that have opened it keep the old files. */
export async function exchangeTexts(out: string, source: CheckpointSource, options: Options): Promise<void> {
  const { files } = await readManifest(out);
  if (hashOfTextFiles(files) === hashOfTexts(source.texts)) return;
  const next = `${out}.next`;
  await packWithTexts(out, next, source, options);
  await rename(out, replacedName(out));
  await rename(next, out);
  await rm(replacedName(out), { recursive: true, force: true });
}

/** Undoes an exchange that was interrupted between its two renames. */
export async function restoreExchanged(out: string): Promise<void> {
  const replaced = replacedName(out);
  if (!existsSync(replaced)) return;
  if (existsSync(out)) await rm(replaced, { recursive: true, force: true });
  else await rename(replaced, out);
}

function replacedName(out: string): string {
  return `${out}.replaced`;
}

/** Of the texts among the files of a pack. */
export function hashOfTextFiles(files: readonly PackFile[]): string {
  return hashOfFiles(files.filter(({ name }) => isTextName(name)));
}

export function hashOfTexts(texts: Texts): string {
  return hashOfFiles([...texts].map(([name, bytes]) => ({ name, sha256: sha256Of(bytes) })));
}
