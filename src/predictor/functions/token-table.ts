/** The `token` hash function: the experts a token id was sent to in training, whatever stands around it. */
import { readSafetensors, tensorOf, writeSafetensors } from '../../checkpoint/safetensors.js';
import { SidaError } from '../../errors.js';
import { NO_EXPERT, type PredictorInput } from '../../native/addon-types.js';
import { type HashFunction, layersOf, type RoutingShape, SIDES, type Side } from '../hash-function.js';

const FORMAT = { format: 'sida-token-table', version: '1' };
/** Of the sum of a row's float32 chances. */
const TOLERANCE = 1e-5;

/** One stack's table. Row n, after those of the n known tokens, is the back-off for unknown ones. */
export interface TokenRows {
  /** Known ids, ascending; (n). */
  tokens: Int32Array<ArrayBuffer>;
  /** Experts of a row. */
  width: number;
  /** (layers, n + 1, width), best first. */
  experts: Uint16Array<ArrayBuffer>;
  /** (layers, n + 1, width), mean probability of the expert where the token stands. */
  alpha: Float32Array<ArrayBuffer>;
  /** (layers, n + 1, width), probability that the router chooses the expert; falls along a row. */
  chance: Float32Array<ArrayBuffer>;
}

export class TokenTable implements HashFunction {
  readonly name = 'token';
  readonly sides: Readonly<Record<Side, TokenRows>>;
  readonly shape: RoutingShape;
  /** Row of each token id. */
  readonly #rows: Record<Side, Int32Array>;

  constructor(shape: RoutingShape, sides: Record<Side, TokenRows>) {
    this.shape = shape;
    this.sides = sides;
    const rowsOf = ({ tokens }: TokenRows) => {
      const rows = new Int32Array(shape.vocab).fill(tokens.length);
      tokens.forEach((token, row) => {
        rows[token] = row;
      });
      return rows;
    };
    this.#rows = { encoder: rowsOf(sides.encoder), decoder: rowsOf(sides.decoder) };
  }

  /** Throws checkpoint_invalid where the file is damaged or made for another model's sizes. */
  static read(path: string, shape: RoutingShape): TokenTable {
    const file = readSafetensors(path);
    if (file.metadata.format !== FORMAT.format || file.metadata.version !== FORMAT.version) {
      throw invalid(
        path,
        `expected ${FORMAT.format} version ${FORMAT.version}, found ${file.metadata.format} version ${file.metadata.version}`,
      );
    }
    const read = (side: Side): TokenRows => {
      const n = file.tensors.get(`${side}.tokens`)?.shape[0] ?? 0;
      const width = file.tensors.get(`${side}.experts`)?.shape[2] ?? 0;
      const entries = [layersOf(shape, side), n + 1, width];
      const rows = {
        tokens: tensorOf(path, file, `${side}.tokens`, 'I32', [n]),
        width,
        experts: tensorOf(path, file, `${side}.experts`, 'U16', entries),
        alpha: tensorOf(path, file, `${side}.alpha`, 'F32', entries),
        chance: tensorOf(path, file, `${side}.chance`, 'F32', entries),
      };
      check(path, side, rows, shape);
      return rows;
    };
    return new TokenTable(shape, { encoder: read('encoder'), decoder: read('decoder') });
  }

  save(path: string): void {
    const tensors: Parameters<typeof writeSafetensors>[1] = {};
    for (const side of SIDES) {
      const { tokens, width, experts, alpha, chance } = this.sides[side];
      const shape = [layersOf(this.shape, side), tokens.length + 1, width];
      tensors[`${side}.tokens`] = { shape: [tokens.length], data: tokens };
      tensors[`${side}.experts`] = { shape, data: experts };
      tensors[`${side}.alpha`] = { shape, data: alpha };
      tensors[`${side}.chance`] = { shape, data: chance };
    }
    writeSafetensors(path, tensors, FORMAT);
  }

  fill(
    side: Side,
    { tokens }: PredictorInput,
    k: number,
    experts: Uint16Array,
    alpha: Float32Array,
    chance: Float32Array,
  ): boolean {
    const { tokens: known, width, ...best } = this.sides[side];
    const rows = this.#rows[side];
    const layers = layersOf(this.shape, side);
    const count = Math.min(k, width);
    for (let layer = 0, to = 0; layer < layers; layer++) {
      const base = layer * (known.length + 1);
      for (let t = 0; t < tokens.length; t++, to += k) {
        const from = (base + (rows[tokens[t]!] ?? known.length)) * width;
        for (let j = 0; j < count; j++) {
          experts[to + j] = best.experts[from + j]!;
          alpha[to + j] = best.alpha[from + j]!;
          chance[to + j] = best.chance[from + j]!;
        }
        for (let j = count; j < k; j++) {
          experts[to + j] = NO_EXPERT;
          alpha[to + j] = 0;
          chance[to + j] = 0;
        }
      }
    }
    return true;
  }

  close(): void {}
}

function invalid(path: string, what: string): SidaError {
  return new SidaError({ code: 'checkpoint_invalid', message: `${path}: ${what}` });
}

function check(path: string, side: Side, rows: TokenRows, { vocab, experts }: RoutingShape): void {
  if (rows.width < 1 || rows.width > experts) {
    throw invalid(path, `${side}: ${rows.width} experts a token, expected 1 to ${experts}`);
  }
  for (let i = 0, last = -1; i < rows.tokens.length; i++) {
    const token = rows.tokens[i]!;
    if (token <= last || token >= vocab) {
      throw invalid(path, `${side}.tokens[${i}] is ${token}, expected ascending ids from 0 to ${vocab - 1}`);
    }
    last = token;
  }
  const seen = new Int32Array(experts).fill(-1);
  let sum = 0;
  for (let i = 0; i < rows.experts.length; i++) {
    const expert = rows.experts[i]!;
    const row = Math.floor(i / rows.width);
    if (expert >= experts || seen[expert] === row) {
      throw invalid(
        path,
        `${side}.experts[${i}] is ${expert}, expected different ones of 0 to ${experts - 1}`,
      );
    }
    seen[expert] = row;
    for (const name of ['alpha', 'chance'] as const) {
      const value = rows[name][i]!;
      if (!(value >= 0 && value <= 1)) {
        throw invalid(path, `${side}.${name}[${i}] is ${value}, expected 0 to 1`);
      }
    }
    sum = i % rows.width === 0 ? rows.chance[i]! : sum + rows.chance[i]!;
    if (sum > 1 + TOLERANCE) {
      throw invalid(path, `${side}.chance: the first ${(i % rows.width) + 1} of row ${row} sum to ${sum}`);
    }
  }
}
