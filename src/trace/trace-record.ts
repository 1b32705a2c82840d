/** One record of a routing trace: the bytes of docs/trace-format.md. */
export const RECORD_MAGIC = 0x52444953; // "SIDR" in memory order
export const RECORD_HEADER_BYTES = 16;

export interface TraceShape {
  encoderLayers: number;
  decoderLayers: number;
  /** Experts kept of each token and layer, most likely first. */
  top: number;
}

export interface TraceRecord {
  /** Line of the data file, counted from 0. */
  line: number;
  encoder: TraceSide;
  decoder: TraceSide;
}

/** The tokens of one stack and where its routers sent them. */
export interface TraceSide {
  /** (tokens). */
  tokens: Int32Array;
  /** (layers, tokens, top), index inside the layer, by falling logit. */
  experts: Uint16Array;
  /** (layers, tokens, top), router logits. */
  logits: Float32Array;
}

export function sideBytes(tokens: number, layers: number, top: number): number {
  return tokens * 4 + align4(tokens * layers * top * 2) + tokens * layers * top * 4;
}

function align4(bytes: number): number {
  return (bytes + 3) & ~3;
}

export function recordBytes(encoderTokens: number, decoderTokens: number, shape: TraceShape): number {
  return (
    RECORD_HEADER_BYTES +
    sideBytes(encoderTokens, shape.encoderLayers, shape.top) +
    sideBytes(decoderTokens, shape.decoderLayers, shape.top)
  );
}

export function encodeRecord(record: TraceRecord, shape: TraceShape): Buffer {
  const { encoder, decoder } = record;
  const buffer = Buffer.alloc(recordBytes(encoder.tokens.length, decoder.tokens.length, shape));
  buffer.writeUInt32LE(RECORD_MAGIC, 0);
  buffer.writeUInt32LE(record.line, 4);
  buffer.writeUInt32LE(encoder.tokens.length, 8);
  buffer.writeUInt32LE(decoder.tokens.length, 12);
  let offset = RECORD_HEADER_BYTES;
  const put = (array: Int32Array | Uint16Array | Float32Array) => {
    buffer.set(new Uint8Array(array.buffer, array.byteOffset, array.byteLength), offset);
    offset += align4(array.byteLength);
  };
  for (const side of [encoder, decoder]) {
    put(side.tokens);
    put(side.experts);
    put(side.logits);
  }
  return buffer;
}

/** Bytes of the record that begins with this header; undefined when it does not begin one. */
export function bytesOfHeader(header: Buffer, shape: TraceShape): number | undefined {
  if (header.length < RECORD_HEADER_BYTES || header.readUInt32LE(0) !== RECORD_MAGIC) return undefined;
  return recordBytes(header.readUInt32LE(8), header.readUInt32LE(12), shape);
}

/** The side that begins at `offset`, as views of `bytes`; the offset is a multiple of 4. */
export function decodeSide(
  bytes: ArrayBuffer,
  offset: number,
  tokens: number,
  layers: number,
  top: number,
): TraceSide {
  const entries = tokens * layers * top;
  const experts = offset + tokens * 4;
  return {
    tokens: new Int32Array(bytes, offset, tokens),
    experts: new Uint16Array(bytes, experts, entries),
    logits: new Float32Array(bytes, experts + align4(entries * 2), entries),
  };
}

/** `buffer` holds one whole record. */
export function decodeRecord(buffer: Buffer, shape: TraceShape): TraceRecord {
  // Typed arrays need aligned memory of their own, which a slice of a read buffer is not.
  const bytes = new Uint8Array(buffer).buffer;
  const [n, m] = [buffer.readUInt32LE(8), buffer.readUInt32LE(12)];
  const decoderOffset = RECORD_HEADER_BYTES + sideBytes(n, shape.encoderLayers, shape.top);
  return {
    line: buffer.readUInt32LE(4),
    encoder: decodeSide(bytes, RECORD_HEADER_BYTES, n, shape.encoderLayers, shape.top),
    decoder: decodeSide(bytes, decoderOffset, m, shape.decoderLayers, shape.top),
  };
}
