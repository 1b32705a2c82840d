import { expect, it } from 'vitest';
import { UnreadBytes, type Waiting } from '../../../src/server/unread-bytes.js';

function answer(closed: string[], name: string): Waiting {
  return { bytes: 0, close: () => closed.push(name) };
}

it('closes what waits longest, and nothing while the bytes are read in time', () => {
  const closed: string[] = [];
  let counted = 0;
  const unread = new UnreadBytes(100, () => {
    counted += 1;
  });
  const [first, second, third] = ['first', 'second', 'third'].map((name) => answer(closed, name));
  unread.add(first!, 40);
  unread.add(second!, 40);
  unread.read(first!);
  unread.add(third!, 60);
  unread.add(first!, 0);
  expect(closed).toEqual([]);
  unread.add(first!, 10);
  expect(closed).toEqual(['second']);
  unread.read(second!, 40);
  unread.add(second!, 31);
  expect(closed).toEqual(['second', 'third']);
  expect([counted, first!.bytes, second!.bytes, third!.bytes]).toEqual([2, 10, 31, 0]);
});
