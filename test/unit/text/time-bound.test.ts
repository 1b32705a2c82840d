import { expect, it } from 'vitest';
import { withinTime } from '../../../src/text/time-bound.js';

const word = new Int32Array(new SharedArrayBuffer(4));
const sleep = (ms: number) => Atomics.wait(word, 0, 0, ms);

it('returns what the function returns, and throws what it throws', () => {
  expect(withinTime(1_000, 'it', () => 3)).toBe(3);
  expect(() =>
    withinTime(1_000, 'it', () => {
      throw new RangeError('of its own');
    }),
  ).toThrow(new RangeError('of its own'));
});

it('ends a function that computes for ever', () => {
  let tries = 0;
  const run = () => {
    tries += 1;
    for (;;) tries += 0;
  };
  let message = '';
  try {
    withinTime(300, 'computing', run);
  } catch (error) {
    message = (error as Error).message;
  }
  // One try, unless this process had less than a fifth of a core.
  expect(message).toBe(`computing took longer than ${300 * tries} ms`);
});

it('tries again when the processor did other work', () => {
  let tries = 0;
  const run = () => {
    tries += 1;
    while (tries < 3) sleep(5);
    return tries;
  };
  // Other threads of this process compute, too: in so long a time less than the share that ends the tries.
  expect(withinTime(400, 'waiting', run)).toBe(3);
});
