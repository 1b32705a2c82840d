/** Packs whose experts stay in a GGUF file, to which they hold a link. */
import { readlinkSync } from 'node:fs';
import { rename, rm, symlink } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { SidaError } from '../errors.js';
import { loadAddon } from '../native/addon.js';
import { readSource } from './checkpoint-source.js';
import { FileHashes } from './file-hashes.js';

const LINK = 'experts.gguf';

export function isInPlace({ experts }: { experts: { file?: string | undefined } }): boolean {
  return experts.file === LINK;
}

function linkedGguf(pack: string): string | undefined {
  try {
    return readlinkSync(join(pack, LINK));
  } catch {
    return undefined;
  }
}

/** Links the pack to the GGUF file `model`, which has its experts. */
export async function linkGguf(pack: string, model: string): Promise<void> {
  if (linkedGguf(pack) === resolve(model)) return;
  const link = join(pack, `${LINK}.next`);
  await rm(link, { force: true });
  await symlink(resolve(model), link);
  await rename(link, join(pack, LINK));
}

interface VerifyOptions {
  hashes?: FileHashes;
  onProgress?: (progress: { phase: 'hash'; done: number; total: number }) => void;
}

/** Throws pack_invalid when the linked file has other weights than those that the pack was made from. */
export async function verifyGguf(pack: string, weights: string, options: VerifyOptions): Promise<void> {
  const model = linkedGguf(pack);
  const refuse = (fault: string) =>
    new SidaError({
      code: 'pack_invalid',
      message: `${join(pack, LINK)}: ${fault}; convert the model again`,
    });
  if (model === undefined) throw refuse('expected a link to a GGUF file');
  const { hashes = FileHashes.inMemory(), onProgress } = options;
  const rest = { hashes, ...(onProgress && { onProgress }) };
  const found = await readSource(model, loadAddon().inspectCheckpoint(model), rest).catch(
    (error: unknown) => {
      throw refuse(SidaError.from(error).message);
    },
  );
  if (found.weights !== weights) throw refuse(`expected the weights ${weights}, found ${found.weights}`);
}
