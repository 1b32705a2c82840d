/** Reads what a checkpoint's identity covers: the content of its weights, and its other files. */
import { closeSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { SidaError } from '../errors.js';
import { openRegularFile } from '../files/regular-file.js';
import { loadAddon } from '../native/addon.js';
import type { CheckpointInfo } from '../native/addon-types.js';
import type { FileHashes } from './file-hashes.js';
import { isGgufPath } from './gguf/gguf-path.js';
import { ggufTexts } from './gguf/gguf-texts.js';
import { cardDescription, describeText } from './model-card.js';
import { readTexts, sha256Of, type TextName, type Texts } from './texts.js';

export interface CheckpointSource {
  /** See ModelIdentity. */
  weights: string;
  texts: Texts;
  /** What its card says of it. */
  description: string | undefined;
}

interface ReadOptions {
  hashes: FileHashes;
  onProgress?: (progress: { phase: 'hash'; done: number; total: number }) => void;
}

/**
 * Hashes every weight file whose hash is not known. `model` is a directory or a GGUF file. Throws checkpoint_invalid
 * for a file that is missing by now.
 */
export async function readSource(
  model: string,
  info: Pick<CheckpointInfo, 'files'>,
  { hashes, onProgress }: ReadOptions,
): Promise<CheckpointSource> {
  const directory = isGgufPath(model) ? dirname(model) : model;
  const { texts, description } = readModel(model);
  const config = texts.get('config.json');
  if (config === undefined) throw missing(join(directory, 'config.json'));
  const contents: string[] = [];
  const total = info.files.reduce((sum, { bytes }) => sum + bytes, 0);
  let done = 0;
  const onBytes = (bytes: number) => {
    done += bytes;
    onProgress?.({ phase: 'hash', done: Math.min(done, total), total });
  };
  for (const { name } of info.files) {
    // The addon has found the file inside of the directory, or in the cache that the directory links to.
    const path = join(directory, name);
    const { fd } = openRegularFile(path, { code: 'checkpoint_invalid' });
    try {
      contents.push(await hashes.of(fd, path, { onBytes }));
    } finally {
      closeSync(fd);
    }
  }
  // A file's name says nothing that its header does not say.
  return { weights: sha256Of([sha256Of(config), ...contents.sort()].join('\n')), texts, description };
}

/** `model` is a directory or a GGUF file. */
export function modelTexts(model: string): Texts {
  return readModel(model).texts;
}

function readModel(model: string): Pick<CheckpointSource, 'texts' | 'description'> {
  if (isGgufPath(model)) return readGguf(model);
  return { texts: readTexts(model), description: cardDescription(model) };
}

/** The configs that the addon makes of a GGUF file's metadata, and the texts that stand there or beside it. */
function readGguf(file: string): Pick<CheckpointSource, 'texts' | 'description'> {
  const info = loadAddon().readGguf(file);
  const texts: Map<TextName, Buffer> = new Map(ggufTexts(file, info.metadata));
  texts.set('config.json', Buffer.from(info.config));
  if (info.generationConfig !== null) texts.set('generation_config.json', Buffer.from(info.generationConfig));
  const { 'general.description': about } = info.metadata;
  return { texts, description: typeof about === 'string' ? describeText(about) : undefined };
}

function missing(path: string): SidaError {
  return new SidaError({ code: 'checkpoint_invalid', message: `${path}: missing` });
}
