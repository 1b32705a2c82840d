import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type HashFunction,
  type HashInput,
  namedExperts,
  type RoutingShape,
} from '../../../src/predictor/hash-function.js';
import type { TeacherRecord } from '../../../src/predictor/training/corpus.js';
import { concatenated } from '../../../src/ragged.js';

export const ENCODER = 0;
export const DECODER = 1;
export const SHAPE: RoutingShape = {
  stacks: [
    { name: 'encoder', layers: 3, causal: false, crosses: false },
    { name: 'decoder', layers: 2, causal: true, crosses: true },
  ],
  experts: 8,
  firstExperts: [0, 8, 16, 24, 32, 40],
  topK: 1,
  normalized: false,
  vocab: 24,
};
/** A decoder-only model whose routers choose two experts. */
export const ALONE: RoutingShape = {
  ...SHAPE,
  stacks: [{ name: 'decoder', layers: 2, causal: true, crosses: false }],
  topK: 2,
};
export const LAYERS = ['encoder.1', 'encoder.3', 'encoder.5', 'decoder.1', 'decoder.3'];
export const TOP = 4;
export const WEIGHTS = 'f00d';

export function randomOf(seed: number): (below: number) => number {
  let state = seed * 2654435761 + 1;
  return (below) => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x6d2b79f5) | 0;
    return Math.floor((((state ^ (state >>> 13)) >>> 0) / 2 ** 32) * below);
  };
}

/** Routing of one stack: the first expert is `best(layer, t)`, followed by its neighbours. */
function stackOf(tokens: number[], layers: number, best: (layer: number, t: number) => number) {
  const experts: number[] = [];
  const logits: number[] = [];
  for (let layer = 0; layer < layers; layer++) {
    for (let t = 0; t < tokens.length; t++) {
      for (let i = 0; i < TOP; i++) {
        experts.push((best(layer, t) + i) % SHAPE.experts);
        logits.push(3 - i + layer / 8);
      }
    }
  }
  return {
    tokens: Int32Array.from(tokens),
    experts: Uint16Array.from(experts),
    logits: Float32Array.from(logits),
  };
}

/**
 * A record whose first layer routes by the token, and every fourth token by its position. Each further layer depends
 * on the first.
 */
export function recordOf(line: number, encoder: number[], decoder: number[]): TeacherRecord {
  const route = (tokens: number[], turn: number) => (layer: number, t: number) => {
    const first = (t + line) % 4 === 3 ? t % 8 : tokens[t]! % 8;
    return (first * (layer === 0 ? 1 : 3) + layer * turn) % 8;
  };
  return {
    line,
    top: TOP,
    input: encoder.length,
    stacks: [
      stackOf(encoder, SHAPE.stacks[ENCODER]!.layers, route(encoder, 1)),
      stackOf(decoder, SHAPE.stacks[DECODER]!.layers, route(decoder, 5)),
    ],
  };
}

export function recordsOf(count: number, seed = 1): TeacherRecord[] {
  const below = randomOf(seed);
  const tokens = (n: number) => Array.from({ length: n }, () => 2 + below(SHAPE.vocab - 4));
  // The first token distinguishes the lines.
  return Array.from({ length: count }, (_, line) =>
    recordOf(line, [line % SHAPE.vocab, ...tokens(4 + below(8))], [0, ...tokens(1 + below(3))]),
  );
}

/** The records' sequences of a stack as one input. */
export function inputOf(records: readonly TeacherRecord[], stack: number): HashInput {
  const join = (which: number) => concatenated(records.map(({ stacks }) => stacks[which]!.tokens));
  const { values: tokens, offsets } = join(stack);
  if (stack === ENCODER) return { tokens, offsets };
  const context = join(ENCODER);
  return { tokens, offsets, contextTokens: context.values, contextOffsets: context.offsets };
}

/** What a function fills for an input, over other numbers. */
export function filled(hash: HashFunction, stack: number, input: HashInput, k: number) {
  const named = namedExperts(SHAPE.stacks[stack]!.layers * input.tokens.length, k);
  for (const values of [named.experts, named.alpha, named.chance]) values.fill(77);
  return { known: hash.fill(stack, input, named), ...named };
}

/** Temporary directory of one test file. It is created again for the next file, which may share this module. */
let root: string | undefined;
let directories = 0;

export function freshPath(): string {
  root ??= mkdtempSync(join(tmpdir(), 'sida-hash-functions-'));
  directories += 1;
  return join(root, String(directories));
}

export function removeFiles(): void {
  if (root !== undefined) rmSync(root, { recursive: true, force: true });
  root = undefined;
}
