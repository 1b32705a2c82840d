import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Watchdog } from '../../../src/engine/watchdog.js';

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

function bench() {
  const onSilence = vi.fn();
  const dog = new Watchdog(onSilence);
  dog.start();
  return { onSilence, dog };
}

it('ends an engine that is silent for more than ten seconds', () => {
  const { onSilence } = bench();
  vi.advanceTimersByTime(10_500);
  expect(onSilence).not.toHaveBeenCalled();
  vi.advanceTimersByTime(1_000);
  expect(onSilence).toHaveBeenCalled();
});

it('spares an engine that sends messages', () => {
  const { onSilence, dog } = bench();
  for (let s = 0; s < 60; s += 1) {
    vi.advanceTimersByTime(1_000);
    dog.heard();
  }
  expect(onSilence).not.toHaveBeenCalled();
});

it('starts over with the next engine, and ends with stop', () => {
  const { onSilence, dog } = bench();
  vi.advanceTimersByTime(9_000);
  dog.start();
  vi.advanceTimersByTime(9_000);
  dog.stop();
  vi.advanceTimersByTime(60_000);
  expect(onSilence).not.toHaveBeenCalled();
});
