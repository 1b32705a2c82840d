/**
 * Opens a model directory in the calling process: its pack, engine and tokenizer. Command-line tools use it; the
 * server runs its engine in a separate process.
 */
import { type PreparedPack, type PrepareOptions, preparePack } from '../checkpoint/prepare-pack.js';
import { SidaError } from '../errors.js';
import { type OpenEngineOptions, openEngine } from '../inference/open-engine.js';
import { activationsOf } from '../inference/sizes.js';
import { loadAddon } from '../native/addon.js';
import type { Activations, DeviceName, Engine } from '../native/addon-types.js';
import { Tokenizer } from '../text/tokenizer.js';

/** Limit for tools, which read trusted local files. */
const MAX_INPUT_BYTES = 1 << 24;
/** A regular expression of the tokenizer may backtrack for ever. Sixteen megabytes take some seconds. */
const TEXT_MS = 60_000;

interface OpenModelOptions
  extends PrepareOptions,
    Omit<OpenEngineOptions, 'pack' | 'kvTokens' | 'kvWindows' | 'kvStates' | 'activations' | 'device'> {
  activations: Activations | 'auto';
  device: DeviceName;
  /** Most tokens after the longest input, in up to `sequences` additional sequences. */
  newTokens: number;
  sequences: number;
}

interface OpenModel extends Omit<PreparedPack, 'tokenizer'> {
  engine: Engine;
  tokenizer: Tokenizer;
}

/** Throws as preparePack and openEngine do, and cannot_run if the model has no tokenizer. */
export async function openModel(options: OpenModelOptions): Promise<OpenModel> {
  const { model, packDir, experts, dense, checkTensors, onProgress, onLine, newTokens, sequences, ...rest } =
    options;
  const prepared = await preparePack({
    model,
    packDir,
    experts,
    ...(dense !== undefined && { dense }),
    ...(checkTensors !== undefined && { checkTensors }),
    ...(onProgress !== undefined && { onProgress }),
    ...(onLine !== undefined && { onLine }),
  });
  // The last page of each sequence may be almost empty.
  const pages = (1 + sequences) * loadAddon().kvPageTokens;
  const kvTokens = rest.maxBatchTokens + newTokens + pages;
  const activations = activationsOf(rest, prepared.formats);
  const engine = openEngine({
    ...rest,
    activations,
    pack: prepared.pack,
    kvTokens,
    kvWindows: 1 + sequences,
    kvStates: 1 + sequences,
  });
  try {
    return { ...prepared, engine, tokenizer: requireTokenizer(prepared, engine) };
  } catch (error) {
    engine.close();
    throw error;
  }
}

export function requireTokenizer(
  { tokenizer, name }: Pick<PreparedPack, 'tokenizer' | 'name'>,
  { shape }: Engine,
): Tokenizer {
  const { vocabSize } = shape;
  const limits = { vocabSize, maxInputBytes: MAX_INPUT_BYTES, textMs: TEXT_MS };
  if (tokenizer !== undefined) return new Tokenizer(tokenizer, limits);
  const message = `${name} has no tokenizer.json: it takes token ids, not text`;
  throw new SidaError({ code: 'cannot_run', message });
}
