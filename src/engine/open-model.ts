/**
 * Opens a model directory in this process: its pack, its engine, its tokenizer. For tools; a server's engine has a
 * process of its own.
 */
import { type PrepareOptions, preparePack } from '../checkpoint/prepare-pack.js';
import { SidaError } from '../errors.js';
import { type OpenEngineOptions, openEngine } from '../inference/open-engine.js';
import { loadAddon } from '../native/addon.js';
import type { Engine } from '../native/addon-types.js';
import type { Tokenizer } from '../text/tokenizer.js';
import { readTokenizer } from './model-directory.js';

/** Tools read whole files: a line of them is not a request from outside. */
const MAX_INPUT_BYTES = 1 << 24;

interface OpenModelOptions extends PrepareOptions, Omit<OpenEngineOptions, 'pack' | 'kvTokens'> {
  /** Tokens that follow the longest input, in up to `sequences` sequences of their own. */
  newTokens: number;
  sequences: number;
}

interface OpenModel {
  name: string;
  fingerprint: string;
  /** Packed model directory. */
  pack: string;
  engine: Engine;
  tokenizer: Tokenizer;
}

/** As preparePack and openEngine; throws cannot_run for a model without a tokenizer. */
export async function openModel(options: OpenModelOptions): Promise<OpenModel> {
  const { model, packDir, experts, dense, checkTensors, signal, onProgress, newTokens, sequences, ...rest } =
    options;
  const prepared = await preparePack({
    model,
    packDir,
    experts,
    ...(dense !== undefined && { dense }),
    ...(checkTensors !== undefined && { checkTensors }),
    ...(signal !== undefined && { signal }),
    ...(onProgress !== undefined && { onProgress }),
  });
  // The last page of each sequence may be all but empty.
  const pages = (1 + sequences) * loadAddon().kvPageTokens;
  const kvTokens = rest.maxBatchTokens + newTokens + pages;
  const engine = openEngine({ ...rest, pack: prepared.pack, kvTokens });
  try {
    return { ...prepared, engine, tokenizer: await requireTokenizer(model, engine) };
  } catch (error) {
    engine.close();
    throw error;
  }
}

export async function requireTokenizer(model: string, { shape }: Engine): Promise<Tokenizer> {
  const { vocabSize } = shape;
  const tokenizer = await readTokenizer(model, { vocabSize, maxInputBytes: MAX_INPUT_BYTES });
  if (tokenizer !== undefined) return tokenizer;
  const message = `${model} has no tokenizer.json: it takes token ids, not text`;
  throw new SidaError({ code: 'cannot_run', message });
}
