import { describe, expect, it } from 'vitest';
import type { ItemWork } from '../../../src/protocol/item-work.js';
import { type KvRoom, pageNeed, RECURRENT } from '../../../src/scheduler/page-need.js';
import { PageLeases } from '../../../src/scheduler/pages.js';

const ROOM: KvRoom = {
  encodes: false,
  kvPages: 1000,
  kvPageTokens: 16,
  // Two pages may hold the 15 tokens before a new one.
  kvWindows: [{ window: 16, pages: 10 }],
  maxBatchTokens: 64,
};

const generate = (maxTokens: number, choices = 1): ItemWork => ({
  kind: 'generate',
  maxTokens,
  logprobs: null,
  choices: Array.from({ length: choices }, () => null),
});

const score = (...labels: number[]): ItemWork => ({
  kind: 'score',
  plan: {
    labels: labels.length,
    first: [],
    inputs: labels.map((length) => ({ tokens: Array.from({ length }, () => 1), rows: [] })),
  },
});

const need = (prompt: number, work: ItemWork) => pageNeed(prompt, work, ROOM).windows[0];

describe('the pages of layers with a window', () => {
  it('are at most those of all tokens', () => {
    expect(need(5, generate(3))).toEqual({ alone: 1, beside: 1 });
    expect(need(16, generate(17))).toEqual({ alone: 2, beside: 2 });
  });

  it('are those of the window and of the largest chunk, however long the answer', () => {
    // 15 tokens before a chunk of 40 touch 5 pages together.
    expect(need(40, generate(5000))).toEqual({ alone: 5, beside: 3 });
    // No chunk is longer than a pass: 79 tokens touch 6 pages.
    expect(need(4000, generate(5000))).toEqual({ alone: 6, beside: 3 });
  });

  it('are counted for the prompt and for each sequence that continues it', () => {
    // The prompt has run then, and holds 2 pages.
    expect(need(40, generate(5000, 4))).toEqual({ alone: 2 + 4 * 2, beside: 2 + 4 * 3 });
    expect(need(4000, generate(2, 1))).toEqual({ alone: 6, beside: 3 });
    expect(need(4000, generate(2, 2))).toEqual({ alone: 6, beside: 2 + 2 });
    expect(need(40, score(3, 200))).toEqual({ alone: 2 + 1 + 6, beside: 2 + 1 + 3 });
  });

  it('admit inputs until neither bound holds, and again when some have ended', () => {
    const pages = new PageLeases(ROOM);
    const long = pageNeed(4000, generate(100), ROOM);
    const admitted = (need: typeof long, times: number) =>
      Array.from({ length: times }, () => pages.lease(need)).filter((lease) => lease !== undefined);
    // A pass has 4 pages, of which each input may begin one: 3 + 2 · 3 are within 10, 3 + 3 · 3 are not.
    const [first] = admitted(long, 2);
    expect(admitted(long, 1)).toEqual([]);
    const short = pageNeed(5, generate(3), ROOM);
    expect(admitted(short, 2)).toHaveLength(1);
    pages.end(first!);
    expect(admitted(long, 2)).toHaveLength(1);
  });

  it('are one state a sequence in recurrent layers, that of the prompt beside those that continue it', () => {
    const room = { ...ROOM, kvWindows: [{ window: RECURRENT, pages: 4 }] };
    const states = (work: ItemWork, prompt = 4000) => pageNeed(prompt, work, room).windows[0]!.alone;
    expect(states(generate(5000))).toBe(1);
    expect(states(generate(5000), 3)).toBe(1);
    expect(states(generate(5000, 3))).toBe(4);
    expect(states(score(3, 200))).toBe(3);
    const pages = new PageLeases(room);
    const leases = Array.from({ length: 5 }, () => pages.lease(pageNeed(40, generate(100), room)));
    expect(leases.map((lease) => lease !== undefined)).toEqual([true, true, true, true, false]);
    pages.end(leases[0]!);
    expect(pages.lease(pageNeed(40, generate(2, 2), room))).toBeUndefined();
    expect(pages.lease(pageNeed(40, generate(2), room))).toBeDefined();
  });

  it('change nothing where no layer has a window', () => {
    const pages = new PageLeases({ ...ROOM, kvPages: 4, kvWindows: [] });
    expect(pages.lease(pageNeed(64, generate(1), pages.room))).toBeDefined();
    expect(pages.lease(pageNeed(1, generate(1), pages.room))).toBeUndefined();
  });
});
