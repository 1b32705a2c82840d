/** Identifies the content of a predictor. Where tables route, it decides answers. */
import { createHash } from 'node:crypto';
import { createReadStream, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { isMissing } from '../errors.js';
import { openModelFile } from '../files/model-file.js';
import type { PredictorChoice } from '../protocol/predictor-messages.js';
import { openRecords, RECORDS, TRACE_META } from '../trace/trace-file.js';
import { TRACE_STACKS } from '../trace/trace-record.js';
import { TOKEN_TABLE } from './predictor-directory.js';
import { MANIFEST } from './training/manifest.js';

/** The sha256 of the files that the choice reads: a trace, or a predictor's manifest, networks and token table. */
export async function predictorFingerprint({ directory, kind }: PredictorChoice): Promise<string> {
  const own = kind === 'replay' ? [TRACE_META, RECORDS] : [MANIFEST, TOKEN_TABLE];
  const hash = createHash('sha256');
  await addFiles(hash, directory, own);
  if (kind !== 'replay') {
    for (const stack of TRACE_STACKS)
      await addFiles(hash, join(directory, stack), filesIn(join(directory, stack)));
  }
  return hash.digest('hex');
}

function filesIn(directory: string): string[] {
  try {
    return readdirSync(directory).sort();
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

async function addFiles(
  hash: ReturnType<typeof createHash>,
  directory: string,
  names: string[],
): Promise<void> {
  for (const name of names) {
    const file = name === RECORDS ? openRecords(directory) : openModelFile(directory, name);
    if (file === undefined) continue;
    const content = createHash('sha256');
    for await (const chunk of createReadStream('', { fd: file.fd, start: 0 }))
      content.update(chunk as Buffer);
    hash.update(`${name} ${content.digest('hex')}\n`);
  }
}
