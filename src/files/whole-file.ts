/** Writes files that appear complete or not at all: beside their name, and then renamed. */
import { randomBytes } from 'node:crypto';
import { open, rename, rm } from 'node:fs/promises';

interface WholeFileOptions {
  mode?: number;
  /** Whether it must outlast a loss of power; default true. */
  durable?: boolean;
  /** Whether other processes may write the same file at the same time; default false. */
  shared?: boolean;
}

export async function writeWholeFile(
  path: string,
  content: string,
  { mode = 0o666, durable = true, shared = false }: WholeFileOptions = {},
): Promise<void> {
  // Processes in different containers may have the same id.
  const temporary = shared ? `${path}.${randomBytes(6).toString('hex')}.tmp` : `${path}.tmp`;
  try {
    const file = await open(temporary, 'w', mode);
    try {
      await file.writeFile(content);
      if (durable) await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => undefined);
    throw error;
  }
}
