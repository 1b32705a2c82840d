/** The token embedding beside a trace's records: training reads it instead of the model. */
import { existsSync } from 'node:fs';
import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { loadAddon } from '../native/addon.js';

export const EMBEDDING = 'embedding.safetensors';

/** Writes it once; the file appears whole. */
export async function writeEmbedding(pack: string, directory: string): Promise<void> {
  const path = join(directory, EMBEDDING);
  if (existsSync(path)) return;
  const { TokenEmbedding } = loadAddon();
  new TokenEmbedding({ pack }).save(`${path}.tmp`);
  await rename(`${path}.tmp`, path);
}
