import { closeSync, existsSync, lstatSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { SidaError } from '../errors.js';
import { readJsonFile } from '../files/json-file.js';
import { isPresent, openModelFile } from '../files/model-file.js';
import type { OpenFile } from '../files/regular-file.js';
import { writeWholeFile } from '../files/whole-file.js';
import type { PackLayout } from '../native/addon-types.js';
import { FileHashes } from './file-hashes.js';
import { isInPlace, verifyGguf } from './in-place.js';
import { MOST_LETTERS } from './model-card.js';
import { isTextName, readText, sha256Of, TEXT_NAMES, type TextName, type Texts } from './texts.js';
import { denseFormatSchema, expertFormatSchema } from './weight-format.js';

/** Packs of an older version are converted again, because they describe experts and tensors differently. */
export const PACK_VERSION = 3;
export const MANIFEST = 'manifest.json';
/** A dense tensor has about twenty. Models of 60 layers have more than a thousand dense tensors. */
const MOST_VALUES = 250_000;

function requiredFiles(inPlace: boolean): string[] {
  return ['dense.sida', 'config.json', ...(inPlace ? [] : ['experts.sida'])];
}

const fileSchema = z.object({
  /** A name is never a path. */
  name: z.enum(['dense.sida', 'experts.sida', ...TEXT_NAMES]),
  bytes: z.number().int().nonnegative(),
  sha256: z.string(),
});

/** The parts of a manifest that TypeScript reads. The addon checks the layout when it opens the pack. */
const manifestSchema = z.object({
  format: z.literal('sida-pack'),
  version: z.literal(PACK_VERSION, {
    error: ({ input }) => `expected ${PACK_VERSION}, found ${JSON.stringify(input) ?? 'none'}`,
  }),
  /** The checkpoint that the pack was made from. */
  source: z.object({
    name: z.string(),
    /** See ModelIdentity. Packs of the same weights and types hold the same weight files. */
    weights: z.string({ error: "expected the sha256 of the checkpoint's weights" }).regex(/^[0-9a-f]{64}$/),
    /** What its card said of it. */
    description: z.string().max(MOST_LETTERS).optional(),
  }),
  experts: expertFormatSchema.and(z.object({ file: z.string().optional() })),
  dense: denseFormatSchema,
  files: z.array(fileSchema),
});

export type Manifest = Omit<z.infer<typeof manifestSchema>, 'files' | 'experts' | 'dense'> &
  PackLayout & { files: PackFile[] };

export interface PackFile {
  name: string;
  bytes: number;
  sha256: string;
}

export function isPack(directory: string): boolean {
  return isPresent(directory, MANIFEST);
}

/** What `schema` asks of the manifest. Undefined when there is none; throws pack_invalid. */
export function manifestParts<S extends z.ZodType>(directory: string, schema: S): z.infer<S> | undefined {
  const hint = 'convert the model again';
  return readJsonFile(directory, MANIFEST, schema, { code: 'pack_invalid', hint, mostValues: MOST_VALUES });
}

export async function readManifest(directory: string): Promise<z.infer<typeof manifestSchema>> {
  const path = join(directory, MANIFEST);
  const manifest = manifestParts(directory, manifestSchema);
  if (manifest === undefined) {
    throw new SidaError({ code: 'pack_invalid', message: `${path}: missing; convert the model again` });
  }
  const required = requiredFiles(isInPlace(manifest));
  const missing = required.find((name) => !manifest.files.some((file) => file.name === name));
  if (missing !== undefined) {
    throw new SidaError({
      code: 'pack_invalid',
      message: `${path}: files: Expected at least ${required.join(', ')}; ${missing} is not there; convert the model again`,
    });
  }
  return manifest;
}

/** Writes the manifest atomically. Call it last, because a directory with a manifest counts as a pack. */
export async function writeManifest(directory: string, manifest: Manifest): Promise<void> {
  await writeWholeFile(join(directory, MANIFEST), `${JSON.stringify(manifest, null, 1)}\n`);
}

/** Opens a file of a pack, which is no link. */
export function openPackFile(directory: string, name: string): OpenFile {
  const code = 'pack_invalid';
  const path = join(directory, name);
  const file = openModelFile(directory, name, { code });
  if (file !== undefined) return file;
  throw new SidaError({ code, message: `${path}: missing; remove ${directory} and convert the model again` });
}

function isLink(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;
}

interface VerifyOptions {
  /** Of larger files only the size is checked, or with `hashes` whether they are unchanged since they were hashed. */
  maxBytes?: number;
  hashes?: FileHashes;
  onProgress?: (progress: { phase: 'hash'; done: number; total: number }) => void;
}

interface VerifiedPack {
  manifest: z.infer<typeof manifestSchema>;
  /** The very bytes that were compared with the manifest. */
  texts: Texts;
}

/** Compares every file of a pack with the manifest's size and sha256. Throws pack_invalid, which names the file. */
export async function verifyPack(directory: string, options: VerifyOptions = {}): Promise<VerifiedPack> {
  const manifest = await readManifest(directory);
  const { files } = manifest;
  const { maxBytes = Number.POSITIVE_INFINITY } = options;
  // Where large files are special, the others take no time worth showing.
  const slow = files.filter(({ bytes }) => options.maxBytes === undefined || bytes > maxBytes);
  const total = slow.reduce((sum, { bytes }) => sum + bytes, 0);
  let done = 0;
  const texts = new Map<TextName, Buffer>();
  const onBytes = (bytes: number) => {
    done += bytes;
    options.onProgress?.({ phase: 'hash', done, total });
  };
  for (const file of files) {
    const { name } = file;
    if (isTextName(name)) texts.set(name, verifiedText(directory, { ...file, name }));
    else
      await verifyWeightFile(directory, file, {
        ...options,
        maxBytes,
        ...(slow.includes(file) && { onBytes }),
      });
  }
  refuseUnlisted(directory, texts);
  if (isInPlace(manifest) && maxBytes > 0) await verifyGguf(directory, manifest.source.weights, options);
  return { manifest, texts };
}

function verifiedText(directory: string, expected: PackFile & { name: TextName }): Buffer {
  const bytes = readText(directory, expected.name, 'pack_invalid');
  if (bytes?.length !== expected.bytes) throw otherSize(directory, expected, bytes?.length);
  const sha256 = sha256Of(bytes);
  if (sha256 !== expected.sha256) throw otherContent(directory, expected, sha256);
  return bytes;
}

/** The addon would read a config that the identity does not cover. */
function refuseUnlisted(directory: string, texts: Texts): void {
  const name = TEXT_NAMES.find((each) => !texts.has(each) && existsSync(join(directory, each)));
  if (name === undefined) return;
  const message = `${join(directory, name)}: expected no such file, as ${MANIFEST} does not name it; remove it`;
  throw new SidaError({ code: 'pack_invalid', message });
}

interface VerifyFileOptions extends VerifyOptions {
  maxBytes: number;
  onBytes?: (bytes: number) => void;
}

async function verifyWeightFile(
  directory: string,
  expected: PackFile,
  { maxBytes, hashes, onBytes }: VerifyFileOptions,
): Promise<void> {
  const { fd, size } = openPackFile(directory, expected.name);
  try {
    if (size !== expected.bytes) throw otherSize(directory, expected, size);
    const large = size > maxBytes;
    if (large && (hashes === undefined || hashes.known(fd) === expected.sha256)) return;
    // Without a record, and where the record differs, only the content counts.
    const reader = large ? hashes! : FileHashes.inMemory();
    const found = await reader.read(fd, join(directory, expected.name), {
      ...(onBytes && { onBytes }),
    });
    if (found !== expected.sha256) throw otherContent(directory, expected, found);
  } finally {
    closeSync(fd);
  }
}

function otherSize(directory: string, { name, bytes }: PackFile, found: number | undefined): SidaError {
  const message = `${join(directory, name)}: size: expected ${bytes} bytes, found ${found ?? 'no file'}; remove ${directory} and convert the model again`;
  return new SidaError({ code: 'pack_invalid', message });
}

function otherContent(directory: string, { name, sha256 }: PackFile, hash: string): SidaError {
  const path = join(directory, name);
  // The hash of a file outside of the pack's directory is not for whoever made the pack.
  const found = isLink(path) ? 'other content' : hash;
  const message = `${path}: sha256: expected ${sha256}, found ${found}; remove ${directory} and convert the model again`;
  return new SidaError({ code: 'pack_invalid', message });
}
