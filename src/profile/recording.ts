/** Recordings of the engine process, as its main thread starts and ends them. */
import { Worker } from 'node:worker_threads';
import { SidaError } from '../errors.js';
import { loadAddon } from '../native/addon.js';
import type { TraceAbout } from './chrome-trace.js';
import type { FromWriter, WriterThreadData } from './writer-thread.js';

export function startRecording(bytes: number): void {
  loadAddon().profile.start(bytes);
}

/** Ends the recording and writes it; without a file it is thrown away. */
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
