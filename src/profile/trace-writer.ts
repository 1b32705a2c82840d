/** Stops the running recording and writes it to a file. The file gets its final name when it is complete. */
import { closeSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import type { Recorder } from '../native/addon-types.js';
import { VERSION } from '../version.js';
import { type TraceAbout, traceEvents } from './chrome-trace.js';

/** Characters per write. */
const PIECE = 1 << 18;

/** Blocks for about one second per million events. Throws cannot_run when no recording runs. */
export function writeTrace(recorder: Recorder, file: string, model: string): TraceAbout {
  const profile = recorder.stop();
  const about: TraceAbout = {
    version: VERSION,
    model,
    beginNs: profile.beginNs,
    seconds: (profile.endNs - profile.beginNs) / 1e9,
    events: profile.lanes.reduce((sum, { op }) => sum + op.length, 0),
    dropped: profile.dropped,
  };
  const partial = partialFile(file);
  try {
    const fd = openSync(partial, 'w', 0o600);
    try {
      let text = `{"displayTimeUnit":"ms","otherData":${JSON.stringify(about)},"traceEvents":[`;
      let separator = '\n';
      for (const event of traceEvents(profile, recorder.ops, process.pid)) {
        text += separator + JSON.stringify(event);
        separator = ',\n';
        if (text.length < PIECE) continue;
        writeFileSync(fd, text);
        text = '';
      }
      writeFileSync(fd, `${text}\n]}\n`);
    } finally {
      closeSync(fd);
    }
    renameSync(partial, file);
  } catch (error) {
    rmSync(partial, { force: true });
    throw error;
  }
  return about;
}

/** Path of the file while it is incomplete. */
export function partialFile(file: string): string {
  return `${file}.partial`;
}
