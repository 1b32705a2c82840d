/** Thread entry: stops and writes the running recording, so that the engine's main thread is not blocked. */
import { parentPort, workerData } from 'node:worker_threads';
import { type ErrorBody, SidaError } from '../errors.js';
import { loadAddon } from '../native/addon.js';
import type { TraceAbout } from './chrome-trace.js';
import { writeTrace } from './trace-writer.js';

export interface WriterThreadData {
  file: string;
  model: string;
}

export type FromWriter = { written: TraceAbout } | { failed: ErrorBody };

const { file, model } = workerData as WriterThreadData;
let answer: FromWriter;
try {
  answer = { written: writeTrace(loadAddon().profile, file, model) };
} catch (error) {
  const { code, message } = error as NodeJS.ErrnoException;
  const isFileError = typeof code === 'string' && /^E[A-Z]+$/.test(code);
  answer = {
    failed: isFileError
      ? { code: 'io_error', message: `The profile cannot be written to ${file}: ${message}` }
      : SidaError.from(error).toBody(),
  };
}
parentPort!.postMessage(answer);
