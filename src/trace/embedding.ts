/** The token embedding in a trace's directory. Training reads it instead of the model. */
import { existsSync } from 'node:fs';
import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { loadAddon } from '../native/addon.js';

export const EMBEDDING = 'embedding.safetensors';

/** Writes the embedding unless it exists. A rename makes the file appear complete or not at all. */
export async function writeEmbedding(pack: string, directory: string): Promise<void> {
  const path = join(directory, EMBEDDING);
  if (existsSync(path)) return;
  const { TokenEmbedding } = loadAddon();
  new TokenEmbedding({ pack }).save(`${path}.tmp`);
  await rename(`${path}.tmp`, path);
}
