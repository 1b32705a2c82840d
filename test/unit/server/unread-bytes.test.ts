import { expect, it } from 'vitest';
import { UnreadBytes, type Waiting } from '../../../src/server/unread-bytes.js';

const closed: string[] = [];
const answer = (client: string, name: string): Waiting => ({
  client,
  bytes: 0,
  close: () => closed.push(`${client} ${name}`),
});

it('closes the oldest of the client that has most, and nothing while the bytes are read in time', () => {
  let counted = 0;
  const unread = new UnreadBytes(100, () => {
    counted += 1;
  });
  const [a1, b1, b2, b3] = [answer('a', '1'), answer('b', '1'), answer('b', '2'), answer('b', '3')];
  unread.add(a1, 40);
  unread.add(b1, 40);
  unread.read(a1);
  unread.add(b2, 20);
  unread.add(a1, 40);
  unread.add(b3, 0);
  expect(closed).toEqual([]);
  unread.add(b3, 20);
  expect(closed).toEqual(['b 1']);
  unread.read(b1, 40);
  unread.add(b1, 30);
  expect(closed).toEqual(['b 1', 'b 2']);
  unread.add(a1, 200);
  expect(closed).toEqual(['b 1', 'b 2', 'a 1']);
  expect([counted, a1.bytes, b1.bytes, b2.bytes, b3.bytes]).toEqual([3, 0, 30, 0, 20]);
});
