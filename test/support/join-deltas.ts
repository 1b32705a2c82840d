import { appendDelta, openDelta } from '../../src/protocol/engine-messages.js';
import type { JobEvent } from '../../src/queue/job-queue.js';

/** Joins the deltas between two statuses into one for each run and choice. The given events stay unchanged. */
export function joinDeltas(events: readonly JobEvent[]): JobEvent[] {
  const joined: JobEvent[] = [];
  let open = new Map<string, Extract<JobEvent, { type: 'delta' }>>();
  for (const event of events) {
    if (event.type !== 'delta') {
      open = new Map();
      joined.push(event);
      continue;
    }
    const { attempt, delta } = event;
    const key = `${attempt} ${delta.index}`;
    const before = open.get(key);
    if (before !== undefined) {
      appendDelta(before.delta, delta);
      continue;
    }
    const first = { ...event, delta: openDelta(delta) };
    open.set(key, first);
    joined.push(first);
  }
  return joined;
}
