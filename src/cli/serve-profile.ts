/** The recording of `sida serve --profile`, from readiness until the server ends. */
import { closeSync, openSync, rmSync, statSync } from 'node:fs';
import { UsageError } from '../config/resolve.js';
import type { EngineHandle } from '../engine/engine-handle.js';
import { SidaError } from '../errors.js';
import { partialFile } from '../profile/trace-writer.js';
import { printLines } from '../text/print.js';
import { causeOf } from '../text/system-error.js';

/** Starts the recording whenever an engine process is ready: a crash loses it. Returns what ends it. */
export function recordProfile(engine: EngineHandle, file: string): () => Promise<void> {
  let started = false;
  engine.onState(async ({ phase }) => {
    if (phase !== 'ready') return;
    try {
      await engine.control({ kind: 'start-profile' });
      started = true;
    } catch (error) {
      printLines(`No profile is recorded: ${(error as Error).message}`);
    }
  });
  return async () => {
    if (!started) return;
    try {
      const reply = await engine.control({ kind: 'stop-profile', file });
      if (reply.kind !== 'stop-profile' || reply.written === null) return;
      const { seconds, events, dropped } = reply.written;
      const loss = dropped === 0 ? 'none dropped' : `${dropped} dropped, because the memory for it was full`;
      printLines(
        `Profile: ${events} events of ${seconds.toFixed(1)} s in ${file}, ${loss}. ui.perfetto.dev opens it`,
      );
    } catch (error) {
      printLines(`The profile is lost: ${SidaError.from(error).message}`);
    }
  };
}

/** Throws UsageError when `file` cannot be written. Runs before any work that would be lost. */
export function checkWritable(file: string): void {
  const refuse = (reason: string) => {
    throw new UsageError(`The "--profile" option is ${file}, which cannot be written: ${reason}`);
  };
  if (statSync(file, { throwIfNoEntry: false })?.isFile() === false) refuse('it is there and is no file');
  const partial = partialFile(file);
  try {
    closeSync(openSync(partial, 'w', 0o600));
  } catch (error) {
    refuse(causeOf(error));
  }
  rmSync(partial, { force: true });
}
