import { expect, it } from 'vitest';
import type { JobEvent, JobRecord } from '../../../src/queue/job-queue.js';
import { joinDeltas } from '../../../src/server/join-deltas.js';

const status: JobEvent = { type: 'status', record: { status: 'running' } as JobRecord };

function piece(text: string, { index = 0, attempt = 1, last = false } = {}): JobEvent {
  const token = { id: 7, token: text, offset: 0, logprob: -1, top: [] };
  const finishReason = last ? 'stop' : null;
  return { type: 'delta', attempt, delta: { index, text, tokenIds: [7], logprobs: [token], finishReason } };
}

const text = (event: JobEvent) =>
  event.type !== 'delta' ? event.type : `${event.attempt}.${event.delta.index} ${event.delta.text}`;

it('joins the deltas of each run and choice between two statuses, in the order of their first deltas', () => {
  const events = [
    piece('a'),
    piece('x', { index: 1 }),
    piece('b'),
    status,
    piece('c', { attempt: 2 }),
    piece('d', { attempt: 2, last: true }),
  ];
  const joined = joinDeltas(events);
  expect(joined.map(text)).toEqual(['1.0 ab', '1.1 x', 'status', '2.0 cd']);
  expect(joined[3]).toMatchObject({
    delta: { tokenIds: [7, 7], logprobs: [{ token: 'c' }, { token: 'd' }], finishReason: 'stop' },
  });
});

it('does not change the given events', () => {
  const events = [piece('a'), piece('b')];
  const before = structuredClone(events);
  joinDeltas(events);
  expect(events).toEqual(before);
});
