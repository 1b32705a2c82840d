/** Starts the tokenizer thread. */
import { Worker } from 'node:worker_threads';
import { SidaError } from '../errors.js';
import { RunningText } from '../protocol/running-text.js';
import type { FromTokenizer, TokenizerThreadData } from '../protocol/tokenizer-messages.js';
import { unusable } from '../text/tokenizing/tokenizer-file.js';

export interface StartedThread {
  worker: Worker;
  running: RunningText;
}

export function startThread(data: Omit<TokenizerThreadData, 'running'>): StartedThread {
  const running = new RunningText();
  const worker = new Worker(new URL('tokenizer-thread.js', import.meta.url), {
    name: 'tokenizer',
    // A text that takes more memory ends the thread and not the process.
    resourceLimits: { maxOldGenerationSizeMb: heapMib(data.json.byteLength) },
    workerData: { ...data, running: running.buffer } satisfies TokenizerThreadData,
  });
  return { worker, running };
}

/** The objects of a tokenizer take about ten times the bytes of its file. */
function heapMib(fileBytes: number): number {
  return 512 + Math.ceil((16 * fileBytes) / 2 ** 20);
}

/** Resolves when the thread can encode. Ends the thread and rejects when it cannot. */
export async function opened(worker: Worker): Promise<void> {
  const first = await new Promise<FromTokenizer>((resolve, reject) => {
    worker.once('message', resolve);
    worker.once('error', (error: NodeJS.ErrnoException) =>
      reject(error.code === 'ERR_WORKER_OUT_OF_MEMORY' ? unusable(error) : error),
    );
  });
  worker.removeAllListeners('error');
  if (first.type === 'opened') return;
  await worker.terminate();
  if (first.type === 'failed') throw new SidaError(first.error);
  throw new Error(`The tokenizer thread began with ${first.type}. This is a bug.`);
}
