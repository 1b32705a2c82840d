import { createHash } from 'node:crypto';
import { createReadStream, existsSync } from 'node:fs';
import { lstat, open, rename, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { SidaError } from '../errors.js';
import { readJsonFile } from '../files/json-file.js';
import { openModelFile } from '../files/model-file.js';
import { type OpenFile, openRegularFile } from '../files/regular-file.js';
import type { PackLayout } from '../native/addon-types.js';
import { MAX_STRIPES } from './stripes.js';
import { denseFormatSchema, expertFormatSchema } from './weight-format.js';

/** Packs of an older version are converted again, because they describe experts and tensors differently. */
export const PACK_VERSION = 3;
export const MANIFEST = 'manifest.json';

/** The files of a pack, besides `experts.sida` or its stripes. A name is never a path. */
const PACK_FILES = [
  'dense.sida',
  'config.json',
  'generation_config.json',
  'tokenizer.json',
  'sida.json',
] as const;
const STRIPE = /^experts\.sida\.\d{1,2}$/;

function requiredFiles(stripes: number): string[] {
  const experts =
    stripes === 1 ? ['experts.sida'] : Array.from({ length: stripes }, (_, i) => `experts.sida.${i}`);
  return ['dense.sida', 'config.json', ...experts];
}

const fileSchema = z.object({
  name: z.union([z.enum([...PACK_FILES, 'experts.sida']), z.string().regex(STRIPE)]),
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
  source: z.object({ name: z.string(), identity: z.string() }),
  experts: expertFormatSchema.and(
    z.object({ stripes: z.object({ count: z.number().int().min(2).max(MAX_STRIPES) }).optional() }),
  ),
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
  return existsSync(join(directory, MANIFEST));
}

export async function readManifest(directory: string): Promise<z.infer<typeof manifestSchema>> {
  const path = join(directory, MANIFEST);
  const rules = { code: 'pack_invalid', hint: 'convert the model again' } as const;
  const manifest = readJsonFile(directory, MANIFEST, manifestSchema, rules);
  if (manifest === undefined) {
    throw new SidaError({ code: 'pack_invalid', message: `${path}: missing; convert the model again` });
  }
  const required = requiredFiles(manifest.experts.stripes?.count ?? 1);
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
  const path = join(directory, MANIFEST);
  const file = await open(`${path}.tmp`, 'w');
  try {
    await file.writeFile(`${JSON.stringify(manifest, null, 1)}\n`);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(`${path}.tmp`, path);
}

/** Opens a file of a pack. Only a stripe may be a link to anywhere, such as another disk. */
function openPackFile(directory: string, name: string): OpenFile {
  const code = 'pack_invalid' as const;
  const path = join(directory, name);
  if (STRIPE.test(name)) return openRegularFile(path, { code });
  const file = openModelFile(directory, name, { code });
  if (file === undefined) throw new SidaError({ code, message: `${path}: missing; convert the model again` });
  return file;
}

/** Reads a file as a stream and returns its sha256 and size. Calls `onBytes` for each chunk. */
export async function hashFile(
  directory: string,
  name: string,
  onBytes: (bytes: number) => void,
  signal?: AbortSignal,
): Promise<PackFile> {
  const hash = createHash('sha256');
  let bytes = 0;
  const stream = createReadStream('', {
    fd: openPackFile(directory, name).fd,
    highWaterMark: 4 << 20,
    ...(signal && { signal }),
  });
  for await (const piece of stream as AsyncIterable<Buffer>) {
    hash.update(piece);
    bytes += piece.length;
    onBytes(piece.length);
  }
  return { name, bytes, sha256: hash.digest('hex') };
}

interface VerifyOptions {
  /** Only the size of larger files is checked. */
  maxBytes?: number;
  onProgress?: (progress: { phase: 'hash'; done: number; total: number }) => void;
  signal?: AbortSignal;
}

/** Compares every file of a pack with the manifest's size and sha256. Throws pack_invalid, which names the file. */
export async function verifyPack(directory: string, options: VerifyOptions = {}): Promise<void> {
  const { files } = await readManifest(directory);
  const total = files.reduce((sum, file) => sum + file.bytes, 0);
  let done = 0;
  for (const expected of files) {
    const path = join(directory, expected.name);
    // A stripe may be a link to a file on another disk.
    const statusOf = STRIPE.test(expected.name) ? stat : lstat;
    const status = await statusOf(path).catch(() => undefined);
    const found = status?.isFile() ? status.size : undefined;
    if (found !== expected.bytes) {
      throw new SidaError({
        code: 'pack_invalid',
        message: `${path}: size: expected ${expected.bytes} bytes, found ${found ?? 'no regular file'}; remove ${directory} and convert the model again`,
      });
    }
    if (expected.bytes > (options.maxBytes ?? Number.POSITIVE_INFINITY)) continue;
    const actual = await hashFile(
      directory,
      expected.name,
      (bytes) => {
        done += bytes;
        options.onProgress?.({ phase: 'hash', done, total });
      },
      options.signal,
    );
    if (actual.sha256 !== expected.sha256) {
      throw new SidaError({
        code: 'pack_invalid',
        message: `${path}: sha256: expected ${expected.sha256}, found ${actual.sha256}; remove ${directory} and convert the model again`,
      });
    }
  }
}
