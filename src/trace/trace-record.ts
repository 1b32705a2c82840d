/** Encodes and decodes one record of a routing trace. docs/trace-format.md describes the bytes. */
const RECORD_MAGIC = 0x52444953; // "SIDR" in memory order
export const RECORD_HEADER_BYTES = 16;

/** The stacks' names, in the order of the format. */
export const TRACE_STACKS = ['encoder', 'decoder'] as const;

export interface TraceShape {
  /** The model's stacks. `layers` counts the MoE layers of a stack. */
  stacks: readonly { name: (typeof TRACE_STACKS)[number]; layers: number }[];
  /** Number of experts recorded per token and layer. */
  top: number;
}

export interface TraceRecord {
  /** Line of the data file, counted from 0. */
  line: number;
  /**
   * Number of tokens of the line. They come first in the first stack. In a model with one stack, the tokens of the
   * continuation follow them.
   */
  input: number;
  /** One entry per stack of the model. */
  stacks: StackRecord[];
}

/** The tokens of one stack and the experts that its routers chose. */
export interface StackRecord {
  /** (tokens). */
  tokens: Int32Array;
  /** (layers, tokens, top), indices within the layer: the router's choice, then the others, each by falling logit. */
  experts: Uint16Array;
  /** (layers, tokens, top), router logits; of routers that take sigmoids, the logarithms of these. */
  logits: Float32Array;
}

function stackBytes(tokens: number, layers: number, top: number): number {
  return tokens * 4 + align4(tokens * layers * top * 2) + tokens * layers * top * 4;
}

function align4(bytes: number): number {
  return (bytes + 3) & ~3;
}

/** `tokens` has one count per stack. */
export function recordBytes(tokens: readonly number[], { stacks, top }: TraceShape): number {
  return stacks.reduce(
    (sum, { layers }, s) => sum + stackBytes(tokens[s]!, layers, top),
    RECORD_HEADER_BYTES,
  );
}

export function encodeRecord({ line, input, stacks }: TraceRecord, shape: TraceShape): Buffer<ArrayBuffer> {
  const lengths = stacks.map(({ tokens }) => tokens.length);
  const buffer = Buffer.alloc(recordBytes(lengths, shape));
  buffer.writeUInt32LE(RECORD_MAGIC, 0);
  buffer.writeUInt32LE(line, 4);
  buffer.writeUInt32LE(input, INPUT_FIELD);
  shape.stacks.forEach(({ name }, s) => {
    buffer.writeUInt32LE(lengths[s]!, lengthField(name));
  });
  let offset = RECORD_HEADER_BYTES;
  const put = (array: Int32Array | Uint16Array | Float32Array) => {
    buffer.set(new Uint8Array(array.buffer, array.byteOffset, array.byteLength), offset);
    offset += align4(array.byteLength);
  };
  for (const { tokens, experts, logits } of stacks) {
    put(tokens);
    put(experts);
    put(logits);
  }
  return buffer;
}

/** The input's length is at the encoder's place, because an encoder's tokens are those of the input. */
const INPUT_FIELD = 8;

function lengthField(name: (typeof TRACE_STACKS)[number]): number {
  return INPUT_FIELD + 4 * TRACE_STACKS.indexOf(name);
}

/** Number of tokens of each stack, from a record's header. Undefined when the bytes do not begin a record. */
export function lengthsOfHeader(header: Buffer, { stacks }: TraceShape): number[] | undefined {
  if (header.length < RECORD_HEADER_BYTES || header.readUInt32LE(0) !== RECORD_MAGIC) return undefined;
  return stacks.map(({ name }) => header.readUInt32LE(lengthField(name)));
}

/** Decodes one complete record, as views of `bytes`. */
export function decodeRecord(bytes: ArrayBuffer, { stacks, top }: TraceShape): TraceRecord {
  const header = Buffer.from(bytes);
  const lengths = lengthsOfHeader(header, { stacks, top })!;
  let offset = RECORD_HEADER_BYTES;
  return {
    line: header.readUInt32LE(4),
    input: header.readUInt32LE(INPUT_FIELD),
    stacks: stacks.map(({ layers }, s) => {
      const tokens = lengths[s]!;
      const entries = tokens * layers * top;
      const experts = offset + tokens * 4;
      const record = {
        tokens: new Int32Array(bytes, offset, tokens),
        experts: new Uint16Array(bytes, experts, entries),
        logits: new Float32Array(bytes, experts + align4(entries * 2), entries),
      };
      offset += stackBytes(tokens, layers, top);
      return record;
    }),
  };
}
