/** Downloads a model into the cache of Hugging Face's tools, and reports the progress. */
import type { Response } from 'express';
import { SidaError } from '../../../errors.js';
import { type HubName, parseHubName, writtenName } from '../../../hub/hub-name.js';
import { clientLeft } from '../../client-left.js';
import type { ServerContext } from '../../context.js';
import { EventStream, JSON_LINES } from '../../event-stream.js';
import { LIMITS } from '../../limits.js';
import { errorAnswer } from '../../middleware/errors.js';
import { withParam } from '../error-text.js';

/** Time between two lines about the same download. */
const PROGRESS_MS = 100;

/** Throws invalid_request for a name that is none of a hub's. */
export function pulledName(given: string): HubName {
  const name = parseHubName(given.replace(/^(?:https?:\/\/)?(?:hf\.co|huggingface\.co)\//, ''));
  if (name !== undefined) return name;
  const message = `Expected the name of a model on Hugging Face as ORG/NAME, such as Qwen/Qwen3-30B-A3B-GGUF:Q4_K_M, but got ${JSON.stringify(given)}`;
  throw new SidaError({ code: 'invalid_request', message, param: 'model' });
}

/** A download ends when its client leaves. The next one goes on where it ended. */
export async function pullWhole(res: Response, name: HubName): Promise<void> {
  await download(res, name, () => undefined);
  res.json({ status: 'success' });
}

export async function pullLines(
  { logger, metrics }: ServerContext,
  res: Response,
  name: HubName,
): Promise<void> {
  const lines = new EventStream(res, JSON_LINES, () => metrics.countSlowReader());
  const beat = setInterval(() => lines.beat(), LIMITS.streamBeatMs);
  try {
    await download(res, name, (line) => lines.send(line));
    lines.send({ status: 'success' });
  } catch (thrown) {
    const error = SidaError.from(thrown);
    if (!lines.opened || error.code === 'cancelled') throw error;
    logger.error({ requestId: res.locals.requestId, err: error }, 'download failed');
    lines.send({ error: withParam(errorAnswer(error).error) });
  } finally {
    clearInterval(beat);
  }
  lines.end();
}

async function download(res: Response, name: HubName, report: (line: object) => void): Promise<void> {
  const written = writtenName(name);
  let told = 0;
  const onProgress = (completed: number, total: number) => {
    const now = performance.now();
    if (now - told < PROGRESS_MS && completed < total) return;
    told = now;
    report({ status: `pulling ${written}`, digest: written, total, completed });
  };
  // The client of the hub is large, and few servers pull.
  const { pull } = await import('../../../hub/pull.js');
  const say = (status: string) => report({ status });
  await pull(name, { onProgress, say, signal: clientLeft(res) }).catch((error) => {
    throw fromHub(error);
  });
}

/** It is this server that the hub refuses. Its status would tell the client that its own key is wrong. */
function fromHub(error: unknown): unknown {
  if (!(error instanceof SidaError) || (error.code !== 'unauthorized' && error.code !== 'forbidden'))
    return error;
  return new SidaError({ code: 'model_not_found', message: error.message, param: 'model' });
}
