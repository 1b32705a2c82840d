/** Downloads one file into the cache: resumable, and compared with its checksum. */
import { createHash, type Hash } from 'node:crypto';
import { type FileHandle, open, rename, rm } from 'node:fs/promises';
import { SidaError } from '../errors.js';
import { formatBytes } from '../text/bytes.js';
import { type Hub, type HubFile, MOST_TRIES } from './hub-client.js';

export interface Download {
  file: HubFile;
  /** Asks for the bytes from `begin` on. */
  ask: (begin: number) => Promise<Response>;
  /** Path of the complete file. The part that is there lies in `<path>.incomplete`, as with Hugging Face's tools. */
  path: string;
  /** Called with the bytes of the file that are there. */
  onBytes: (done: number) => void;
}

/** Throws io_error for a wrong checksum, a full disk, and a transfer that breaks without any progress. */
export async function download(hub: Hub, { file, ask, path, onBytes }: Download): Promise<void> {
  const partial = `${path}.incomplete`;
  const handle = await open(partial, 'a+');
  let found: string;
  try {
    const part = await Part.of(handle, file, onBytes);
    for (let tries = 0; part.done < file.size; ) {
      const before = part.done;
      try {
        await part.append(await ask(part.done));
      } catch (error) {
        if (error instanceof SidaError) throw error;
      }
      if (part.done >= file.size) break;
      tries = part.done > before ? 1 : tries + 1;
      if (tries === MOST_TRIES) {
        const got = `${formatBytes(part.done)} of ${formatBytes(file.size)}`;
        throw fault(file, `the transfer breaks off at ${got}; the part is kept, so try again later`);
      }
      await hub.wait(tries);
    }
    found = part.digest();
    await handle.sync();
  } finally {
    await handle.close();
  }
  if (found !== file.blob) {
    await rm(partial);
    throw fault(file, `checksum: expected ${file.blob}, found ${found}; the file is removed, so try again`);
  }
  await rename(partial, path);
}

/** The part of a file that is there. */
class Part {
  readonly #handle: FileHandle;
  readonly #file: HubFile;
  readonly #onBytes: (done: number) => void;
  #hash: Hash;
  done = 0;

  private constructor(handle: FileHandle, file: HubFile, onBytes: (done: number) => void) {
    this.#handle = handle;
    this.#file = file;
    this.#onBytes = onBytes;
    this.#hash = this.#newHash();
  }

  static async of(handle: FileHandle, file: HubFile, onBytes: (done: number) => void): Promise<Part> {
    const part = new Part(handle, file, onBytes);
    if ((await handle.stat()).size > file.size) await handle.truncate(0);
    for await (const piece of handle.createReadStream({ start: 0, autoClose: false })) part.#count(piece);
    return part;
  }

  async append(response: Response): Promise<void> {
    if (response.status === 200 && this.done > 0) {
      // The server knows no ranges, and sends the file from its begin.
      await this.#handle.truncate(0);
      this.#hash = this.#newHash();
      this.done = 0;
    } else if (
      response.status === 206 &&
      !response.headers.get('content-range')?.startsWith(`bytes ${this.done}-`)
    ) {
      throw fault(
        this.#file,
        `expected a range from ${this.done}, found ${response.headers.get('content-range')}`,
      );
    }
    for await (const piece of response.body ?? []) {
      if (this.done + piece.length > this.#file.size) {
        throw fault(this.#file, `expected ${this.#file.size} bytes, found more`);
      }
      await this.#write(piece);
      this.#count(piece);
    }
  }

  digest(): string {
    return this.#hash.digest('hex');
  }

  #newHash(): Hash {
    return this.#file.large ? createHash('sha256') : createHash('sha1').update(`blob ${this.#file.size}\0`);
  }

  #count(piece: Uint8Array): void {
    this.#hash.update(piece);
    this.done += piece.length;
    this.#onBytes(this.done);
  }

  async #write(piece: Uint8Array): Promise<void> {
    try {
      await this.#handle.writeFile(piece);
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      const what = code === 'ENOSPC' || code === 'EDQUOT' ? 'the disk is full' : message;
      throw fault(
        this.#file,
        `${what}; ${formatBytes(this.done)} of ${formatBytes(this.#file.size)} are kept`,
      );
    }
  }
}

function fault({ path }: HubFile, what: string): SidaError {
  return new SidaError({ code: 'io_error', message: `${path}: ${what}` });
}
