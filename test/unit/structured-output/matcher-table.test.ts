// The matchers of one grammar thread, beside a library that the test writes.
import { describe, expect, it, vi } from 'vitest';
import { clockMs } from '../../../src/clock.js';
import { MatcherState } from '../../../src/protocol/matcher-state.js';
import { MatcherTable } from '../../../src/structured-output/matcher-table.js';
import { type CompiledGrammar, RefusedGrammar } from '../../../src/structured-output/xgrammar.js';

const VOCAB = 32;
const TOKEN_MS = 20;
/** A token that the library thinks about for too long. */
const HARD = 9;
const GRAMMAR = JSON.stringify({ kind: 'text', text: 'a' });

function busy(ms: number): void {
  const end = clockMs() + ms;
  while (clockMs() < end);
}

/** Allows the token after the last one. `slow` is what takes too long. */
function table(slow: 'accept' | 'allowed' | 'begin' | 'none') {
  const compiled: CompiledGrammar = {
    matcher: () => {
      let last = 0;
      return {
        accept: (token) => {
          if (slow === 'accept' && token === HARD) busy(2 * TOKEN_MS);
          last = token;
          return true;
        },
        ended: false,
        allowed: async () => {
          if ((slow === 'allowed' && last === HARD) || slow === 'begin') busy(2 * TOKEN_MS);
          return Int32Array.of(1 << (last + 1));
        },
        close: () => undefined,
      };
    },
    close: () => undefined,
  };
  const compile = vi.fn(async () => compiled);
  return { own: new MatcherTable({ library: { compile }, vocabSize: VOCAB, tokenMs: TOKEN_MS }), compile };
}

async function opened(own: MatcherTable, id: number, tokens: number[] = []): Promise<MatcherState> {
  const state = new MatcherState(VOCAB);
  await own.handle({ type: 'open', id, grammar: GRAMMAR, tokens, state: state.buffer });
  return state;
}

describe('a matcher whose grammar needs too long for a token', () => {
  it.each(['accept', 'allowed'] as const)('fails alone: %s', async (slow) => {
    const { own } = table(slow);
    const [one, other] = [await opened(own, 1), await opened(own, 2)];
    await own.handle({ type: 'take', id: 1, token: HARD });
    expect([one.isAnswered(1), one.fault]).toEqual([true, 'slow']);
    await own.handle({ type: 'take', id: 2, token: 3 });
    expect([other.isAnswered(1), other.fault, other.allowed[0]]).toEqual([true, '', 1 << 4]);
  });

  it('fails also where it begins again with its tokens', async () => {
    expect((await opened(table('accept').own, 1, [2, HARD, 3])).fault).toBe('slow');
  });

  it('is refused before it begins', async () => {
    expect(await table('begin').own.prepare(GRAMMAR)).toMatch(/longer than 20 ms/);
    expect(await table('none').own.prepare(GRAMMAR)).toBe('');
  });
});

it('the state waits on after a notification of the answer before', () => {
  const state = new MatcherState(VOCAB);
  const wait = vi.spyOn(Atomics, 'wait').mockReturnValueOnce('ok');
  wait.mockImplementationOnce(() => {
    state.answered(0);
    return 'ok';
  });
  state.wait(0, 1_000);
  wait.mockRestore();
  expect(state.isAnswered(0)).toBe(true);
});

it('the state tells a call that lasts from one that has ended', async () => {
  const { own } = table('none');
  const state = await opened(own, 1);
  expect(state.calls % 2).toBe(0);
  const before = state.calls;
  await own.handle({ type: 'take', id: 1, token: 2 });
  // One call takes the token, and one asks for the tokens that may follow.
  expect(state.calls).toBe(before + 4);
});

it('a grammar is compiled once, however often it is asked for', async () => {
  const { own, compile } = table('none');
  for (let times = 0; times < 2; times += 1) expect(await own.prepare(GRAMMAR)).toBe('');
  await opened(own, 1);
  expect(compile).toHaveBeenCalledTimes(1);
});

it('a grammar that no schema allows is refused with the reason', async () => {
  const compile = async () => {
    throw new RefusedGrammar('too long');
  };
  expect(await new MatcherTable({ library: { compile }, vocabSize: VOCAB }).prepare(GRAMMAR)).toBe(
    'too long',
  );
});
