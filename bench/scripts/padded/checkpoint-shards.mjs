// Reads the headers of a checkpoint's safetensors files and writes them anew with tensors of other sizes.
import {
  closeSync,
  existsSync,
  ftruncateSync,
  openSync,
  readFileSync,
  readSync,
  renameSync,
  statSync,
  writeSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { SidaError } from '../../../dist/errors.js';

const INDEX = 'model.safetensors.index.json';
const SINGLE = 'model.safetensors';
const LENGTH_BYTES = 8;
const MAX_HEADER_BYTES = 2 ** 28;
/** Tensors are copied through a buffer of this size, whatever theirs is. */
const CHUNK = 2 ** 22;

const invalid = (message) => new SidaError({ code: 'checkpoint_invalid', message });

/** Reads a JSON file. Throws checkpoint_invalid. */
export function readJson(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    throw invalid(`${path}: ${error.message}`);
  }
}

/** The weight files of a checkpoint with their tensors in the order of their data, and the index if it has one. */
export function readShards(model) {
  const index = existsSync(join(model, INDEX)) ? readJson(join(model, INDEX)) : undefined;
  const names = index === undefined ? [SINGLE] : [...new Set(Object.values(index.weight_map ?? {}))];
  for (const name of names) {
    if (basename(name) !== name) throw invalid(`${INDEX}: ${name} is not the name of a file beside it`);
    if (!existsSync(join(model, name))) throw invalid(`${join(model, name)} is missing`);
  }
  return { index, shards: names.map((name) => ({ name, ...readHeader(join(model, name)) })) };
}

/** The index of the copy. */
export function writtenIndex(index, tensors) {
  const total = tensors.reduce((sum, { newBytes }) => sum + newBytes, 0);
  return { name: INDEX, content: { ...index, metadata: { ...index.metadata, total_size: total } } };
}

function readHeader(path) {
  const file = openSync(path, 'r');
  try {
    const { size } = statSync(path);
    const length = size < LENGTH_BYTES ? -1 : Number(readAt(file, path, 0, LENGTH_BYTES).readBigUInt64LE());
    if (length < 0 || length > Math.min(MAX_HEADER_BYTES, size - LENGTH_BYTES)) {
      throw invalid(`${path}: a header of ${length} bytes in a file of ${size}; the file may have been cut`);
    }
    const { __metadata__: metadata, ...entries } = parse(path, readAt(file, path, LENGTH_BYTES, length));
    const begin = LENGTH_BYTES + length;
    const tensors = Object.entries(entries).map(([name, entry]) =>
      checkEntry(path, name, entry, size - begin),
    );
    for (const tensor of tensors) tensor.begin += begin;
    return { metadata, tensors: tensors.sort((a, b) => a.begin - b.begin) };
  } finally {
    closeSync(file);
  }
}

function checkEntry(path, name, entry, dataBytes) {
  const [begin, end] = entry?.data_offsets ?? [];
  const whole = Array.isArray(entry?.shape) && [begin, end, ...entry.shape].every(Number.isSafeInteger);
  if (!whole || begin < 0 || begin > end || end > dataBytes) {
    throw invalid(
      `${path}: tensor ${name} is ${JSON.stringify(entry)}, expected a shape and data within ${dataBytes} bytes; the file may have been cut`,
    );
  }
  return { name, dtype: entry.dtype, shape: entry.shape, begin, bytes: end - begin };
}

function parse(path, bytes) {
  try {
    return JSON.parse(bytes.toString());
  } catch (error) {
    throw invalid(`${path}: header: ${error.message}`);
  }
}

function readAt(file, path, position, length, buffer = Buffer.alloc(length)) {
  for (let done = 0; done < length; ) {
    const read = readSync(file, buffer, done, length - done, position + done);
    if (read === 0) throw invalid(`${path}: ends at byte ${position + done}, expected ${position + length}`);
    done += read;
  }
  return buffer;
}

function writeAt(file, buffer, from, to, position) {
  for (let at = from; at < to; ) at += writeSync(file, buffer, at, to - at, position + at - from);
}

/** Writes a file with the padded tensors; it is complete or absent. The zeros are holes, where the disk has them. */
export function writeShard(from, to, { metadata, tensors }, done) {
  const header = metadata === undefined ? {} : { __metadata__: metadata };
  let end = 0;
  for (const { name, dtype, shape, newBytes } of tensors) {
    header[name] = { dtype, shape, data_offsets: [end, end + newBytes] };
    end += newBytes;
  }
  const json = Buffer.from(JSON.stringify(header));
  const length = Math.ceil(json.length / 8) * 8;
  const head = Buffer.alloc(LENGTH_BYTES + length, ' ');
  head.writeBigUInt64LE(BigInt(length));
  json.copy(head, LENGTH_BYTES);
  const [source, target] = [openSync(from, 'r'), openSync(`${to}.partial`, 'w')];
  try {
    writeAt(target, head, 0, head.length, 0);
    let position = head.length;
    for (const tensor of tensors) {
      copyRows({ source, target, from }, tensor, position);
      position += tensor.newBytes;
      done();
    }
    ftruncateSync(target, position);
  } finally {
    closeSync(source);
    closeSync(target);
  }
  renameSync(`${to}.partial`, to);
}

const buffer = Buffer.alloc(CHUNK);

/** Copies each row to where it begins in the wider matrix. Rows that stay as they are count as one. */
function copyRows({ source, target, from }, { begin, bytes, copy }, position) {
  const step = copy.count > 1 ? Math.max(1, Math.floor(CHUNK / copy.from)) * copy.from : CHUNK;
  if (copy.count > 1 && step > CHUNK)
    throw invalid(`${from}: a row of ${copy.from} bytes, expected at most ${CHUNK}`);
  for (let at = 0; at < bytes; at += step) {
    const length = Math.min(step, bytes - at);
    readAt(source, from, begin + at, length, buffer);
    const piece = copy.count > 1 ? copy.from : length;
    for (let row = 0; row < length; row += piece) {
      const moved = copy.count > 1 ? ((at + row) / copy.from) * copy.to : at;
      writeAt(target, buffer, row, row + piece, position + moved);
    }
  }
}
