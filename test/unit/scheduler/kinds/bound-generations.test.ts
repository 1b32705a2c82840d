// Generations that a grammar binds, beside a grammar thread that answers when the test says.
import { MessageChannel, receiveMessageOnPort } from 'node:worker_threads';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { ToMatchers } from '../../../../src/protocol/grammar-messages.js';
import type { ItemWork } from '../../../../src/protocol/item-work.js';
import { MatcherState } from '../../../../src/protocol/matcher-state.js';
import { bench, closeBench } from '../loop-bench.js';
import { DECODER_ONLY } from '../scripted-native-engine.js';

let closePorts = () => {};
afterEach(() => {
  closeBench();
  closePorts();
  vi.restoreAllMocks();
  vi.useRealTimers();
});

const free = (maxTokens: number): ItemWork => {
  return { kind: 'generate', maxTokens, logprobs: null, choices: [null] };
};
const bound = (maxTokens: number): ItemWork => {
  const grammar = { text: '{}', thread: 0, param: 'response_format' };
  return { ...(free(maxTokens) as Extract<ItemWork, { kind: 'generate' }>), grammar };
};
const long = (length: number) => Array.from({ length }, (_, i) => 2 + (i % 3));

/** A loop whose matchers are answered by `answer`, which allows every token, or only those of `allowed`. */
function boundBench() {
  const own = bench(200, DECODER_ONLY);
  const { port1, port2 } = new MessageChannel();
  closePorts = () => port1.close();
  own.control.push({ type: 'grammar-thread', thread: 0, incarnation: 0, port: port1 });
  const open = new Map<number, { state: MatcherState; taken: number }>();
  const answer = (only: (id: number) => boolean = () => true) => {
    for (let next = receiveMessageOnPort(port2); next; next = receiveMessageOnPort(port2)) {
      const message = next.message as ToMatchers;
      if (message.type === 'open') {
        const state = new MatcherState(DECODER_ONLY.vocabSize, message.state);
        open.set(message.id, { state, taken: message.tokens.length });
      } else if (message.type === 'take') open.get(message.id)!.taken += 1;
      else open.delete(message.id);
    }
    for (const [id, { state, taken }] of open) {
      if (!only(id)) continue;
      state.allowed.fill(0xffffffff);
      state.answered(taken);
    }
  };
  return { ...own, answer };
}

describe('inputs whose grammar has not answered', () => {
  it('hold up a step once, prompts and running generations together', () => {
    const { loop, send, answer, tokensOf } = boundBench();
    send({ item: 1, job: 1, work: bound(9), tokens: [3, 4] });
    loop.turn();
    answer();
    loop.turn();
    expect(tokensOf(1)).toHaveLength(1);
    send({ item: 2, job: 2, work: bound(9), tokens: [3, 4] });
    vi.useFakeTimers({ toFake: ['hrtime'] });
    const waits: number[] = [];
    vi.spyOn(Atomics, 'wait').mockImplementation((_array, _index, _value, ms) => {
      waits.push(ms!);
      // Less than a millisecond does not always change the clock.
      vi.advanceTimersByTime(Math.ceil(ms!));
      return 'timed-out';
    });
    loop.turn();
    expect(waits.reduce((sum, ms) => sum + ms, 0)).toBeCloseTo(5, 3);
  });

  it('leave their room in a pass to others', () => {
    const { engine, loop, send, settle, answer, tokensOf, clean } = boundBench();
    // As many tokens as a pass has.
    send({ item: 1, job: 1, work: bound(1), tokens: long(32) });
    loop.turn();
    send({ item: 2, job: 2, work: free(1), tokens: long(20) });
    loop.turn();
    expect(engine.calls.map(({ offsets }) => [...offsets])).toEqual([[0, 20]]);
    expect([tokensOf(1), tokensOf(2)]).toEqual([[], [expect.any(Number)]]);
    answer();
    settle();
    expect(tokensOf(1)).toHaveLength(1);
    clean();
  });
});
