/** Starts and stops recordings of the engine process. Runs on its main thread. */
import { Worker } from 'node:worker_threads';
import { SidaError } from '../errors.js';
import { loadAddon } from '../native/addon.js';
import type { TraceAbout } from './chrome-trace.js';
import type { FromWriter, WriterThreadData } from './writer-thread.js';

/** Memory for the recording, of about 50 bytes an event. Events that come when it is full are dropped and counted. */
const RECORDING_BYTES = 64 << 20;

export function startRecording(): void {
  loadAddon().profile.start(RECORDING_BYTES);
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
