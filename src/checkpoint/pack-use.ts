/** What a cached pack remembers of its use: the checkpoint that it serves, and when it was last opened. */
import { rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { readModelFile } from '../files/model-file.js';
import { parseJson } from '../text/one-line.js';

const USE = 'use.json';
const MOST_BYTES = 64 << 10;

const schema = z.object({ source: z.string(), usedMs: z.number() });

export type PackUse = z.infer<typeof schema>;

/** `source` is the checkpoint's directory. A cache that cannot be written does without. */
export async function recordUse(pack: string, source: string): Promise<void> {
  const path = join(pack, USE);
  const temporary = `${path}.${process.pid}.tmp`;
  try {
    await writeFile(temporary, `${JSON.stringify({ source, usedMs: Date.now() })}\n`);
    await rename(temporary, path);
  } catch {
    await rm(temporary, { force: true }).catch(() => undefined);
  }
}

export function readUse(pack: string): PackUse | undefined {
  try {
    const json = readModelFile(pack, USE, { mostBytes: MOST_BYTES });
    return json && parseJson(json, schema);
  } catch {
    return undefined;
  }
}
