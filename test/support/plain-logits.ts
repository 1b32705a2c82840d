/** Logits of whole sequences by the engine alone, without the server's batches: what generated texts are checked by. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { convertCheckpoint } from '../../src/checkpoint/converter.js';
import { loadAddon } from '../../src/native/addon.js';
import { type Engine, NO_PARENT } from '../../src/native/addon-types.js';
import { isEncoderDecoder } from '../../src/native/model-shape.js';

const [PROMPT, TEXT] = [1, 2];

export class PlainLogits {
  readonly #root: string;
  readonly #engine: Engine;

  private constructor(root: string, engine: Engine) {
    this.#root = root;
    this.#engine = engine;
  }

  /** Every expert of `model` is resident, in f32. */
  static async open(model: string): Promise<PlainLogits> {
    const root = mkdtempSync(join(tmpdir(), 'sida-plain-'));
    const dtype = 'f32' as const;
    const formats = { experts: { dtype }, dense: { dtype } };
    const { pack } = await convertCheckpoint({ model, out: join(root, 'pack'), ...formats });
    const addon = loadAddon();
    const limits = { maxBatchTokens: 512, kvTokens: 512, threads: 1 };
    const { resident } = addon.planMemory({ pack }, limits);
    const store = { budgetBytes: resident, hostBudgetBytes: 0, linkBandwidth: 0, linkLatency: 0 };
    return new PlainLogits(root, new addon.Engine({ pack, ...store, ...limits }));
  }

  /** What stands before the generated tokens: the prompt, or the decoder's start token. */
  before(prompt: number[]): number[] {
    const { shape } = this.#engine;
    return isEncoderDecoder(shape) ? [shape.tokens.start!] : prompt;
  }

  /** The logits of the token after `text`. */
  after(prompt: number[], text: number[]): Float32Array {
    const encodes = isEncoderDecoder(this.#engine.shape);
    if (encodes) this.#run({ stack: 0, sequence: PROMPT, parent: NO_PARENT, tokens: prompt });
    const tokens = [...this.before(prompt), ...text];
    const last = { sequence: TEXT, parent: encodes ? PROMPT : NO_PARENT, tokens };
    const { logits } = this.#run({ stack: encodes ? 1 : 0, ...last, logitRows: [tokens.length - 1] });
    this.#engine.releaseSequences(Int32Array.from(encodes ? [TEXT, PROMPT] : [TEXT]));
    return logits!;
  }

  close(): void {
    this.#engine.close();
    rmSync(this.#root, { recursive: true, force: true });
  }

  #run({ stack, sequence, parent, tokens, logitRows }: OneSequence) {
    const batch = {
      stack,
      sequences: Int32Array.of(sequence),
      parents: Int32Array.of(parent),
      offsets: Int32Array.of(0, tokens.length),
      tokens: Int32Array.from(tokens),
      ...(logitRows && { logitRows: Int32Array.from(logitRows) }),
    };
    return this.#engine.runBatch(batch, null);
  }
}

interface OneSequence {
  stack: number;
  sequence: number;
  parent: number;
  tokens: number[];
  logitRows?: number[];
}
