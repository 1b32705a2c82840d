/** Ends the running recording and writes it as a file, which appears under its name when it is whole. */
import { closeSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import type { Recorder } from '../native/addon-types.js';
import { VERSION } from '../version.js';
import { type TraceAbout, traceEvents } from './chrome-trace.js';

/** Characters handed to the system at a time. */
const PIECE = 1 << 18;

/** Blocks for about a second a million events. Throws cannot_run where no recording runs. */
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

/** Where the file grows until it is whole. */
export function partialFile(file: string): string {
  return `${file}.partial`;
}
