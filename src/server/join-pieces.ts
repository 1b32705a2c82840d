import type { CompletionDelta } from '../engine/messages.js';
import type { JobEvent } from '../queue/job-queue.js';

/** The same events with the pieces between two statuses as one for each run and choice. */
export function joinPieces(events: readonly JobEvent[]): JobEvent[] {
  const joined: JobEvent[] = [];
  let open = new Map<string, Extract<JobEvent, { type: 'delta' }>>();
  for (const event of events) {
    if (event.type === 'status') {
      open = new Map();
      joined.push(event);
      continue;
    }
    const { attempt, delta } = event;
    const key = `${attempt} ${delta.index}`;
    const before = open.get(key);
    if (before !== undefined) {
      append(before.delta, delta);
      continue;
    }
    const { tokenIds, logprobs } = delta;
    // Of its own: what is appended must not show in the given events.
    const own = { tokenIds: [...tokenIds], logprobs: logprobs && [...logprobs] };
    const first = { ...event, delta: { ...delta, ...own } };
    open.set(key, first);
    joined.push(first);
  }
  return joined;
}

function append(to: CompletionDelta, { text, tokenIds, logprobs, finishReason }: CompletionDelta): void {
  to.text += text;
  to.tokenIds.push(...tokenIds);
  to.logprobs?.push(...(logprobs ?? []));
  to.finishReason = finishReason;
}
