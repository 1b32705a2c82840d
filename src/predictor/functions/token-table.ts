/** The `token` hash function: predicts from the token id alone, by the experts it was routed to in training. */
import { readSafetensors, tensorOf, writeSafetensors } from '../../checkpoint/safetensors.js';
import { SidaError } from '../../errors.js';
import { NO_EXPERT } from '../../native/addon-types.js';
import {
  type DecoderStepper,
  expertsOfStack,
  type HashFunction,
  type HashInput,
  type NamedExperts,
  type RoutingShape,
} from '../hash-function.js';

const FORMAT = { format: 'sida-token-table', version: '1' };
/** Relative tolerance for the sum of a row's float32 chances, which is at most topK. */
const TOLERANCE = 1e-5;

/** A token table does not depend on where sequences begin. */
const NO_OFFSETS = new Int32Array();

/** One stack's table. The last row, number n, is the back-off for unknown token ids. */
export interface TokenRows {
  /** (n), known token ids, ascending. */
  tokens: Int32Array<ArrayBuffer>;
  /** Experts in a row. */
  width: number;
  /** (layers, n + 1, width), best first. */
  experts: Uint16Array<ArrayBuffer>;
  /** (layers, n + 1, width), mean router probability of the expert for this token. */
  alpha: Float32Array<ArrayBuffer>;
  /** (layers, n + 1, width), probability that the router chooses the expert; falls along a row. */
  chance: Float32Array<ArrayBuffer>;
}

export class TokenTable implements HashFunction {
  readonly name = 'token';
  /** One entry per stack. */
  readonly stacks: readonly TokenRows[];
  readonly shape: RoutingShape;
  /** For each stack: (vocab), the row of each token id. */
  readonly #rows: readonly Int32Array[];
  /** For each stack: experts of each layer. */
  readonly #experts: readonly (readonly number[])[];

  constructor(shape: RoutingShape, stacks: readonly TokenRows[]) {
    this.shape = shape;
    this.stacks = stacks;
    this.#experts = stacks.map((_, stack) => expertsOfStack(shape, stack));
    this.#rows = stacks.map(({ tokens }) => {
      const rows = new Int32Array(shape.vocab).fill(tokens.length);
      tokens.forEach((token, row) => {
        rows[token] = row;
      });
      return rows;
    });
  }

  /** Throws checkpoint_invalid if the file is damaged or was made for a model of other sizes. */
  static read(path: string, shape: RoutingShape): TokenTable {
    const file = readSafetensors(path);
    if (file.metadata.format !== FORMAT.format || file.metadata.version !== FORMAT.version) {
      throw invalid(
        path,
        `expected ${FORMAT.format} version ${FORMAT.version}, found ${file.metadata.format} version ${file.metadata.version}`,
      );
    }
    const stacks = shape.stacks.map(({ name, layers }, stack): TokenRows => {
      const n = file.tensors.get(`${name}.tokens`)?.shape[0] ?? 0;
      const width = file.tensors.get(`${name}.experts`)?.shape[2] ?? 0;
      if (n > shape.vocab) throw invalid(path, `${name}: ${n} tokens, expected at most ${shape.vocab}`);
      checkWidth(path, name, width, shape);
      const entries = [layers, n + 1, width];
      const rows = {
        tokens: tensorOf(path, file, `${name}.tokens`, 'I32', [n]),
        width,
        experts: tensorOf(path, file, `${name}.experts`, 'U16', entries),
        alpha: tensorOf(path, file, `${name}.alpha`, 'F32', entries),
        chance: tensorOf(path, file, `${name}.chance`, 'F32', entries),
      };
      check(path, stack, rows, shape);
      return rows;
    });
    return new TokenTable(shape, stacks);
  }

  save(path: string): void {
    const tensors: Parameters<typeof writeSafetensors>[1] = {};
    for (const [stack, { tokens, width, experts, alpha, chance }] of this.stacks.entries()) {
      const { name, layers } = this.shape.stacks[stack]!;
      const shape = [layers, tokens.length + 1, width];
      tensors[`${name}.tokens`] = { shape: [tokens.length], data: tokens };
      tensors[`${name}.experts`] = { shape, data: experts };
      tensors[`${name}.alpha`] = { shape, data: alpha };
      tensors[`${name}.chance`] = { shape, data: chance };
    }
    writeSafetensors(path, tensors, FORMAT);
  }

  fill(stack: number, { tokens }: HashInput, { k, experts, alpha, chance }: NamedExperts): boolean {
    const { tokens: known, width, ...best } = this.stacks[stack]!;
    const rows = this.#rows[stack]!;
    const layers = this.#experts[stack]!;
    for (let layer = 0, to = 0; layer < layers.length; layer++) {
      const count = Math.min(k, width, layers[layer]!);
      const base = layer * (known.length + 1);
      for (let t = 0; t < tokens.length; t++, to += k) {
        const from = (base + (rows[tokens[t]!] ?? known.length)) * width;
        for (let j = 0; j < count; j++) {
          experts[to + j] = best.experts[from + j]!;
          alpha[to + j] = best.alpha[from + j]!;
          chance[to + j] = best.chance[from + j]!;
        }
        experts.fill(NO_EXPERT, to + count, to + k);
        alpha.fill(0, to + count, to + k);
        chance.fill(0, to + count, to + k);
      }
    }
    return true;
  }

  stepper(): DecoderStepper | null {
    const stack = this.stacks.length - 1;
    if (this.shape.stacks[stack]!.layers === 0) return null;
    return {
      begin() {},
      fork() {},
      step: (_sequences, tokens, into) => this.fill(stack, { tokens, offsets: NO_OFFSETS }, into),
      end() {},
    };
  }

  close(): void {}
}

function invalid(path: string, what: string): SidaError {
  return new SidaError({ code: 'checkpoint_invalid', message: `${path}: ${what}` });
}

/** Sizes are checked before the data is read, so that they bound its memory. */
function checkWidth(path: string, stack: string, width: number, { experts }: RoutingShape): void {
  if (width < 1 || width > experts) {
    throw invalid(path, `${stack}: ${width} experts a token, expected 1 to ${experts}`);
  }
}

function check(path: string, at: number, rows: TokenRows, shape: RoutingShape): void {
  const { vocab, experts, topK } = shape;
  const stack = shape.stacks[at]!.name;
  const layerExperts = expertsOfStack(shape, at);
  const entries = (rows.tokens.length + 1) * rows.width;
  for (let i = 0, last = -1; i < rows.tokens.length; i++) {
    const token = rows.tokens[i]!;
    if (token <= last || token >= vocab) {
      throw invalid(path, `${stack}.tokens[${i}] is ${token}, expected ascending ids from 0 to ${vocab - 1}`);
    }
    last = token;
  }
  const seen = new Int32Array(experts).fill(-1);
  let sum = 0;
  for (let i = 0; i < rows.experts.length; i++) {
    const expert = rows.experts[i]!;
    const row = Math.floor(i / rows.width);
    const own = layerExperts[Math.floor(i / entries)]!;
    // Behind its own experts, the row of a small layer is filled up.
    const end = i % rows.width < own ? own : experts;
    if (expert >= end || seen[expert] === row) {
      throw invalid(path, `${stack}.experts[${i}] is ${expert}, expected different ones of 0 to ${end - 1}`);
    }
    seen[expert] = row;
    for (const name of ['alpha', 'chance'] as const) {
      const value = rows[name][i]!;
      if (!(value >= 0 && value <= 1)) {
        throw invalid(path, `${stack}.${name}[${i}] is ${value}, expected 0 to 1`);
      }
    }
    sum = i % rows.width === 0 ? rows.chance[i]! : sum + rows.chance[i]!;
    if (sum > topK * (1 + TOLERANCE)) {
      throw invalid(
        path,
        `${stack}.chance: the first ${(i % rows.width) + 1} of row ${row} sum to ${sum}, expected at most ${topK}`,
      );
    }
  }
}
