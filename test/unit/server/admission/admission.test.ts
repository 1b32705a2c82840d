// The token limit of each minute and each caller's share of the queue.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Admission } from '../../../../src/server/admission/admission.js';
import { QueueShare } from '../../../../src/server/admission/queue-share.js';
import { memoryLimiter, RateLimit } from '../../../../src/server/admission/rate-limit.js';

describe('tokens per minute', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });
  const limitOf = (tokens: number) => new RateLimit(memoryLimiter(tokens));
  const known = (tokens: number) => ({ known: tokens, estimated: 0 });
  const left = async (limit: RateLimit, who = 'a') =>
    (await limit.reserve(who, known(0))).allowance.remaining;

  it('are reserved, then settled with the tokens that were used', async () => {
    const limit = limitOf(100);
    const reservation = await limit.reserve('a', { known: 30, estimated: 30 });
    expect(reservation.allowance).toEqual({ limit: 100, remaining: 40, resetSeconds: 60 });
    await reservation.settle(10);
    expect(await left(limit)).toBe(90);
    const short = await limit.reserve('a', known(5));
    await short.settle(25);
    expect(await left(limit)).toBe(65);
  });

  it('cause a refusal when used up, which charges nothing and has a retry time', async () => {
    const limit = limitOf(100);
    await limit.reserve('a', known(80));
    vi.advanceTimersByTime(20_500);
    for (let i = 0; i < 3; i += 1) {
      await expect(limit.reserve('a', known(21))).rejects.toMatchObject({
        code: 'rate_limited',
        status: 429,
        details: { tokens: 21, limit: 100, remaining: 20, retry_after_s: 40 },
        allowance: { limit: 100, remaining: 20, resetSeconds: 40 },
      });
    }
    await limit.reserve('a', known(20));
    vi.advanceTimersByTime(39_500);
    await limit.reserve('a', known(100));
  });

  it('are counted for each caller separately', async () => {
    const limit = limitOf(100);
    await limit.reserve('a', known(100));
    await expect(limit.reserve('a', known(1))).rejects.toThrow(/0 of 100/);
    expect(await left(limit, 'b')).toBe(100);
  });

  it('never admit a request whose known tokens exceed a minute, but cap an estimate', async () => {
    const limit = limitOf(100);
    await expect(limit.reserve('a', known(101))).rejects.toMatchObject({ code: 'cannot_run' });
    const { allowance } = await limit.reserve('a', { known: 60, estimated: 1_000 });
    expect(allowance.remaining).toBe(0);
  });

  it('of a minute that has ended give no credit in the next', async () => {
    const limit = limitOf(100);
    const old = await limit.reserve('a', known(90));
    vi.advanceTimersByTime(60_000);
    await limit.reserve('a', known(10));
    await old.settle(0);
    expect(await left(limit)).toBe(90);
  });

  it('come back after a minute at most when the wall clock is changed', async () => {
    for (const hours of [-1, 1]) {
      const limit = limitOf(100);
      await limit.reserve('a', known(100));
      vi.setSystemTime(Date.now() + hours * 3_600_000);
      const { allowance } = await limit.reserve('a', known(0));
      expect(allowance.resetSeconds).toBeGreaterThan(0);
      expect(allowance.resetSeconds).toBeLessThanOrEqual(60);
      vi.advanceTimersByTime(60_000);
      await limit.reserve('a', known(100));
    }
  });

  it('that were underestimated are charged even after their minute has ended', async () => {
    const limit = limitOf(100);
    const old = await limit.reserve('a', known(10));
    vi.advanceTimersByTime(60_000);
    await old.settle(50);
    expect(await left(limit)).toBe(60);
  });
});

it('leaves the headers of an answer that has begun', async () => {
  const admission = new Admission({
    ...{ keys: { size: 1 }, queue: { stats: { waiting: 0 } }, metrics: {}, queueBound: 10 },
    ...{ tokenLimit: undefined, byteLimit: new RateLimit(memoryLimiter(100), 'bytes') },
  } as never);
  const setHeader = vi.fn();
  const res = { headersSent: true, locals: {}, req: { socket: {} }, setHeader };
  const ticket = await admission.admit(res as never, { kind: 'embed', inputs: ['a'] } as never);
  await ticket.checkBytes();
  expect(setHeader).not.toHaveBeenCalled();
});

describe('the share of the queue', () => {
  /** Takes places in turn until all callers are refused. Every request waits. */
  function fill(share: QueueShare, callers: string[], bound: number) {
    const held = new Map(callers.map((who) => [who, 0]));
    const leave: (() => void)[] = [];
    let waiting = 0;
    for (let refused = 0; refused < callers.length && waiting < bound; ) {
      refused = 0;
      for (const who of callers) {
        const left = share.take(who, waiting);
        if (left === undefined) {
          refused += 1;
          continue;
        }
        leave.push(left);
        waiting += 1;
        held.set(who, held.get(who)! + 1);
      }
    }
    return { held: [...held.values()], waiting, leave };
  }

  it.each([
    [1, 50],
    [2, 33],
    [4, 20],
  ])('of each of %i callers is as large as the free part of the queue', (callers, each) => {
    const names = Array.from({ length: callers }, (_, i) => `c${i}`);
    const share = new QueueShare(100);
    const { held, waiting } = fill(share, names, 100);
    for (const count of held) expect(Math.abs(count - each)).toBeLessThanOrEqual(1);
    expect(share.take('another', waiting)).toBeDefined();
  });

  it('can be taken again after it is freed', () => {
    const share = new QueueShare(10);
    const { leave, waiting } = fill(share, ['a'], 10);
    expect(share.take('a', waiting)).toBeUndefined();
    for (const each of leave) each();
    expect(share.take('a', 0)).toBeDefined();
  });

  it('is unlimited while no request waits', () => {
    const share = new QueueShare(1);
    for (let i = 0; i < 64; i += 1) expect(share.take('a', 0)).toBeDefined();
  });
});
