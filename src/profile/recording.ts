/** Starts and stops recordings of the engine process. Runs on its main thread. */
import { Worker } from 'node:worker_threads';
import { SidaError } from '../errors.js';
import { loadAddon } from '../native/addon.js';
import type { TraceAbout } from './chrome-trace.js';
import type { FromWriter, WriterThreadData } from './writer-thread.js';

export function startRecording(bytes: number): void {
  loadAddon().profile.start(bytes);
}

/** Stops the recording and writes it to `file` in a thread. A null `file` discards it, and the result is null. */
export async function stopRecording(file: string | null, model: string): Promise<TraceAbout | null> {
  if (file === null) {
    loadAddon().profile.stop();
    return null;
  }
  const workerData: WriterThreadData = { file, model };
  const worker = new Worker(new URL('./writer-thread.js', import.meta.url), { name: 'profile', workerData });
  const answer = await new Promise<FromWriter>((resolve, reject) => {
    worker.once('message', resolve).once('error', reject);
    worker.once('exit', () =>
      reject(new Error('The thread that writes the profile ended without an answer')),
    );
  });
  if ('failed' in answer) throw new SidaError(answer.failed);
  return answer.written;
}
