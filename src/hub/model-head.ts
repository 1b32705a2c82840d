/** Downloads what the plan of a model needs: its config and the headers of its weights, into files with holes. */
import { closeSync, ftruncateSync, mkdirSync, openSync, writeFileSync, writeSync } from 'node:fs';
import { basename, join } from 'node:path';
import { indexOf, WEIGHTS } from '../checkpoint/config-plan.js';
import { SidaError } from '../errors.js';
import { Hub, type HubFile } from './hub-client.js';
import type { HubName } from './hub-name.js';
import { chooseFiles, type ModelFiles, textFiles } from './model-files.js';

const FIRST_BYTES = 1 << 20;
/** The addon reads no longer head. */
const MOST_BYTES = 48 << 20;
const CONFIGS = ['config.json', 'generation_config.json', indexOf(WEIGHTS.safetensors)];

/** Resolves with the path of the model below `directory`. Its weight files have their sizes, and nothing but heads. */
export async function fetchModelHead(name: HubName, directory: string, hub = new Hub()): Promise<string> {
  const { repo } = name;
  const { commit, files } = await hub.repository(repo);
  const { files: chosen, entry } = planned(name, files);
  const model = join(directory, basename(repo));
  mkdirSync(model, { recursive: true });
  for (const file of chosen) {
    const { path, size } = file;
    const out = join(model, basename(path));
    const read = (begin: number, end: number) => readRange(hub, repo, commit, file, begin, end);
    if (CONFIGS.includes(path)) writeFileSync(out, await read(0, size));
    else if (path.endsWith('.safetensors')) writeHead(out, size, await readHead(size, read, safetensorsHead));
    else if (path.endsWith('.gguf')) writeHead(out, size, await readHead(size, read, ggufHead));
  }
  return entry === '.' ? model : join(model, basename(entry));
}

/** A checkpoint can be planned from its config where sida does not read its weights, or they have no head. */
function planned(name: HubName, files: HubFile[]): Pick<ModelFiles<HubFile>, 'files' | 'entry'> {
  try {
    const chosen = chooseFiles(name, files);
    return chosen.format === 'pytorch' ? { files: textFiles(files), entry: '.' } : chosen;
  } catch (error) {
    const texts = textFiles(files);
    const config = texts.some(({ path }) => path === 'config.json');
    if (name.choice !== undefined || !config || (error as SidaError).code !== 'model_not_found') throw error;
    return { files: texts, entry: '.' };
  }
}

type Read = (begin: number, end: number) => Promise<Buffer>;

/** Reads until `lengthOf` knows the length of the head. */
async function readHead(
  size: number,
  read: Read,
  lengthOf: (head: Buffer) => number | undefined,
): Promise<Buffer> {
  let head = Buffer.alloc(0);
  for (let end = FIRST_BYTES; ; end *= 2) {
    head = Buffer.concat([head, await read(head.length, Math.min(end, size))]);
    const length = lengthOf(head);
    if (length !== undefined && length <= head.length) return head.subarray(0, length);
    // The addon says what is wrong with a head that never ends.
    if (head.length === size || head.length >= MOST_BYTES) return head;
  }
}

async function readRange(
  hub: Hub,
  repo: string,
  commit: string,
  { path, size }: HubFile,
  begin: number,
  end: number,
): Promise<Buffer> {
  if (begin >= Math.min(end, size)) return Buffer.alloc(0);
  const response = await hub.ask(repo, commit, path, begin, end);
  // A server that knows no ranges sends the whole file.
  let skip = response.status === 206 ? 0 : begin;
  const pieces: Buffer[] = [];
  let left = end - begin;
  for await (const piece of response.body ?? []) {
    const wanted = Buffer.from(piece).subarray(skip, skip + left);
    skip = Math.max(0, skip - piece.length);
    pieces.push(wanted);
    left -= wanted.length;
    if (left === 0) break;
  }
  if (left > 0) {
    const message = `${path}: expected ${end - begin} bytes from ${begin}, found ${end - begin - left}`;
    throw new SidaError({ code: 'io_error', message });
  }
  return Buffer.concat(pieces);
}

function writeHead(path: string, size: number, head: Buffer): void {
  const fd = openSync(path, 'w');
  try {
    writeSync(fd, head);
    ftruncateSync(fd, size);
  } finally {
    closeSync(fd);
  }
}

function safetensorsHead(head: Buffer): number | undefined {
  return head.length < 8 ? undefined : 8 + Number(head.readBigUInt64LE(0));
}

/** Bytes of a value by its type in a GGUF file. 0 for texts (8) and arrays (9). */
const GGUF_BYTES = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8];
const TEXT = 8;
const ARRAY = 9;

/** Length of a GGUF file's head. Undefined where it does not end in `head`. The addon describes a damaged one. */
export function ggufHead(head: Buffer): number | undefined {
  let at = 8;
  // `at += count()` would read `at` before `count` moves it.
  const skip = (bytes: number) => {
    at += bytes;
  };
  const count = () => {
    skip(8);
    return Number(head.readBigUInt64LE(at - 8));
  };
  const type = () => {
    skip(4);
    return head.readUInt32LE(at - 4);
  };
  const skipText = () => skip(count());
  const skipValues = (kind: number, many: number) => {
    if (kind === TEXT) for (let i = 0; i < many; i++) skipText();
    else skip(many * (GGUF_BYTES[kind] ?? 0));
  };
  try {
    const tensors = count();
    const entries = count();
    for (let i = 0; i < entries; i++) {
      skipText();
      const kind = type();
      if (kind === ARRAY) skipValues(type(), count());
      else skipValues(kind, 1);
    }
    for (let i = 0; i < tensors; i++) {
      skipText();
      skip(8 * type() + 4 + 8);
    }
  } catch (error) {
    // A value begins or ends behind the buffer.
    if (error instanceof RangeError) return undefined;
    throw error;
  }
  return at <= head.length ? at : undefined;
}
