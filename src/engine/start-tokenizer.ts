/** Starts the tokenizer thread. */
import { Worker } from 'node:worker_threads';
import { SidaError } from '../errors.js';
import { RunningText } from '../protocol/running-text.js';
import type { FromTokenizer, TokenizerThreadData } from '../protocol/tokenizer-messages.js';

export interface StartedThread {
  worker: Worker;
  running: RunningText;
}

export function startThread(data: Omit<TokenizerThreadData, 'running'>): StartedThread {
  const running = new RunningText();
  const worker = new Worker(new URL('tokenizer-thread.js', import.meta.url), {
    name: 'tokenizer',
    workerData: { ...data, running: running.buffer } satisfies TokenizerThreadData,
  });
  return { worker, running };
}

/** Resolves when the thread can encode. Ends the thread and rejects when it cannot. */
export async function opened(worker: Worker): Promise<void> {
  const first = await new Promise<FromTokenizer>((resolve, reject) => {
    worker.once('message', resolve);
    worker.once('error', reject);
  });
  worker.removeAllListeners('error');
  if (first.type === 'opened') return;
  await worker.terminate();
  if (first.type === 'failed') throw new SidaError(first.error);
  throw new Error(`The tokenizer thread began with ${first.type}. This is a bug.`);
}
