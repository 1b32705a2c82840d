/** Identifies the content of a predictor. Where tables route, it decides answers. */
import { createHash } from 'node:crypto';
import { closeSync, createReadStream } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { z } from 'zod';
import { SidaError } from '../errors.js';
import { readJsonFile } from '../files/json-file.js';
import { holdsDirectory, openModelFile } from '../files/model-file.js';
import type { DeviceName } from '../native/addon-types.js';
import { NETWORK_NAMES, type PredictorChoice } from '../protocol/predictor-messages.js';
import { formatBytes, formatLeast } from '../text/bytes.js';
import { TRACE_STACKS } from '../trace/trace-record.js';
import { TOKEN_TABLE } from './predictor-directory.js';
import { MANIFEST } from './training/manifest.js';

/** More than the networks and tables of any model have. */
const MOST_BYTES = 2 ** 32;
const NETWORK = 'predictor.json';
/** The addon opens the tensors under a name that begins with their hash. It checks the other fields. */
const networkSchema = z.object({ weights_sha256: z.string().regex(/^[0-9a-f]{64}$/) });

/**
 * The sha256 of a predictor's manifest, networks and token table, and of the device that runs it. Other files in the
 * directory do not count. Throws checkpoint_invalid for files that no predictor can have.
 */
export async function predictorFingerprint(
  { directory }: PredictorChoice,
  device: DeviceName,
): Promise<string> {
  const hash = createHash('sha256');
  // A GPU rounds weights in another way.
  if (device !== 'cpu') hash.update(`${device}\n`);
  for (const file of predictorFiles(directory)) {
    const content = await contentOf(directory, file);
    if (content !== undefined) hash.update(`${file} ${content}\n`);
  }
  return hash.digest('hex');
}

/** Names within the directory. Those of a network begin with its kind and the name of its stack. */
function predictorFiles(directory: string): string[] {
  const kinds = NETWORK_NAMES.filter((kind) => holdsDirectory(directory, kind));
  const folders = kinds.flatMap((kind) =>
    TRACE_STACKS.filter((stack) => holdsDirectory(join(directory, kind), stack)).map(
      (stack) => `${kind}/${stack}`,
    ),
  );
  const networks = folders.flatMap((folder) => {
    const network = readJsonFile(join(directory, folder), NETWORK, networkSchema, {
      code: 'checkpoint_invalid',
    });
    const tensors = network && `predictor-${network.weights_sha256.slice(0, 16)}.safetensors`;
    return [NETWORK, ...(tensors === undefined ? [] : [tensors])].map((name) => `${folder}/${name}`);
  });
  return [MANIFEST, TOKEN_TABLE, ...networks];
}

async function contentOf(directory: string, file: string): Promise<string | undefined> {
  const open = openModelFile(join(directory, dirname(file)), basename(file));
  if (open === undefined) return undefined;
  const { fd, size } = open;
  if (size > MOST_BYTES) {
    closeSync(fd);
    const message = `${join(directory, file)}: too large: expected at most ${formatBytes(MOST_BYTES)}, found ${formatLeast(size)}`;
    throw new SidaError({ code: 'checkpoint_invalid', message });
  }
  const content = createHash('sha256');
  // A file that grows meanwhile is read as far as it was examined.
  const chunks = createReadStream('', { fd, start: 0, end: Math.max(0, size - 1) });
  for await (const chunk of chunks) content.update(chunk as Buffer);
  return content.digest('hex');
}
