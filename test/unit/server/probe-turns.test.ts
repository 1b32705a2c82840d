import { EventEmitter } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { beforeEach, expect, it } from 'vitest';
import { LIMITS } from '../../../src/server/limits.js';
import { ProbeTurns } from '../../../src/server/probe-turns.js';

const MS = 20;

let full: boolean;
/** Names of requests in the order in which they were handled, with the time of each. */
let handled: { name: string; at: number }[];
let turns: ProbeTurns;
beforeEach(() => {
  full = true;
  handled = [];
  const handle = ({ url }: IncomingMessage, res: ServerResponse) => {
    handled.push({ name: url!, at: performance.now() });
    if (url !== 'unread') setTimeout(() => res.emit('close'), MS);
  };
  const hasFew = ({ url }: IncomingMessage) => !url!.startsWith('many');
  turns = new ProbeTurns(handle, { isFull: () => full, hasFew });
});

function add(name: string, destroyed = false): void {
  turns.add({ url: name, destroyed } as IncomingMessage, new EventEmitter() as ServerResponse);
}
const names = () => handled.map(({ name }) => name);

it('handles one at a time, and rests for longer than it took', async () => {
  for (const name of ['a', 'b', 'c']) add(name);
  expect(names()).toEqual(['a']);
  await expect.poll(() => handled.length).toBe(3);
  for (const [at, { at: begun }] of handled.slice(1).entries()) {
    expect(begun - handled[at]!.at).toBeGreaterThan(4 * MS);
  }
});

it('handles the newest first where there is no room, and the oldest first where there is', async () => {
  for (const name of ['a', 'b', 'c', 'd']) add(name);
  await expect.poll(() => names()).toEqual(['a', 'd']);
  full = false;
  await expect.poll(() => names()).toEqual(['a', 'd', 'b', 'c']);
});

it('handles those of clients with few connections first', async () => {
  for (const name of ['many 1', 'few', 'many 2']) add(name);
  await expect.poll(() => names()).toEqual(['many 1', 'few', 'many 2']);
});

it('passes over those whose clients have gone', async () => {
  add('a');
  add('gone', true);
  add('b');
  full = false;
  await expect.poll(() => names()).toEqual(['a', 'b']);
});

it('begins again after it had none', async () => {
  add('a');
  await new Promise((resolve) => setTimeout(resolve, 15 * MS));
  add('b');
  expect(names()).toEqual(['a', 'b']);
});

it('does not wait long for a client that reads nothing', async () => {
  add('unread');
  add('b');
  await expect.poll(() => names(), { timeout: 2_000 }).toEqual(['unread', 'b']);
});

it('keeps no more than the connections there may be', () => {
  let looks = 0;
  const gone = {
    url: 'gone',
    get destroyed() {
      looks += 1;
      return true;
    },
  } as IncomingMessage;
  for (let i = 0; i < 10 * LIMITS.connections; i += 1) turns.add(gone, new EventEmitter() as ServerResponse);
  looks = 0;
  turns.handOver();
  expect(looks).toBeLessThanOrEqual(2 * LIMITS.connections);
});

it('hands over all that wait', () => {
  for (const name of ['a', 'b', 'c']) add(name);
  turns.handOver();
  expect(names().sort()).toEqual(['a', 'b', 'c']);
});
