// The inference thread's end of the grammar threads, beside ports that answer as the test says.
import { MessageChannel, type MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { SidaError } from '../../../src/errors.js';
import type { ThreadLife, ToMatchers } from '../../../src/protocol/grammar-messages.js';
import { MatcherState } from '../../../src/protocol/matcher-state.js';
import { type Matcher, Matchers } from '../../../src/structured-output/matchers.js';

const VOCAB = 64;
const WORK = { text: '{}', thread: 0, param: 'response_format' };

let matchers: Matchers;
let stuck: ThreadLife[];
const ports: MessagePort[] = [];

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['hrtime'] });
  stuck = [];
  matchers = new Matchers(VOCAB, (life) => stuck.push(life));
});
afterEach(() => {
  vi.useRealTimers();
  for (const port of ports.splice(0)) port.close();
});

/** Connects a thread. Returns its end. */
function connect(incarnation: number): MessagePort {
  const { port1, port2 } = new MessageChannel();
  ports.push(port1, port2);
  matchers.connect({ thread: 0, incarnation }, port1);
  return port2;
}

function received(port: MessagePort): ToMatchers[] {
  const found: ToMatchers[] = [];
  for (let next = receiveMessageOnPort(port); next; next = receiveMessageOnPort(port))
    found.push(next.message);
  return found;
}

/** The state of the matcher that the thread was last sent. */
function stateOf(port: MessagePort): MatcherState {
  const open = received(port).findLast((message) => message.type === 'open');
  return new MatcherState(VOCAB, open!.state);
}

function open(): Matcher {
  return matchers.open(WORK, { item: 0, job: 0 });
}

function faultOf(matcher: Matcher): string {
  try {
    matcher.take(0);
  } catch (error) {
    return (error as SidaError).message;
  }
  return '';
}

describe('a matcher that is not answered', () => {
  it('fails after a minute, and names the thread that it asked', () => {
    connect(7);
    const matcher = open();
    vi.advanceTimersByTime(59_000);
    expect([matcher.ready, stuck]).toEqual([false, []]);
    vi.advanceTimersByTime(2_000);
    expect(matcher.ready).toBe(true);
    expect(stuck).toEqual([{ thread: 0, incarnation: 7 }]);
    expect(faultOf(matcher)).toMatch(/could not be followed/);
  });

  it('is not begun again once it has failed', () => {
    connect(0);
    const matcher = open();
    vi.advanceTimersByTime(61_000);
    expect(matcher.ready).toBe(true);
    expect(received(connect(1))).toEqual([]);
  });

  it('names the thread that it asked, not the one that replaced it', () => {
    connect(0);
    const matcher = open();
    vi.advanceTimersByTime(50_000);
    connect(1);
    vi.advanceTimersByTime(11_000);
    expect(matcher.ready).toBe(true);
    expect(stuck).toEqual([{ thread: 0, incarnation: 0 }]);
  });

  it('has a minute in all, however often its thread is replaced', () => {
    connect(0);
    const matcher = open();
    for (let times = 1; times < 4; times += 1) {
      vi.advanceTimersByTime(19_000);
      connect(times);
    }
    expect(matcher.ready).toBe(false);
    vi.advanceTimersByTime(4_000);
    expect(matcher.ready).toBe(true);
  });
});

it('a matcher that was answered long ago has a minute on the thread that replaces its own', () => {
  const first = connect(0);
  const matcher = open();
  stateOf(first).answered(0);
  vi.advanceTimersByTime(300_000);
  const second = connect(1);
  vi.advanceTimersByTime(59_000);
  expect(matcher.ready).toBe(false);
  stateOf(second).answered(0);
  expect([matcher.ready, stuck]).toEqual([true, []]);
});

describe('a matcher whose thread is in a call of the library', () => {
  it('fails once the call is too long, names the thread, and the others begin on the next one', () => {
    const port = connect(0);
    const [slow, other] = [open(), open()];
    const [first] = received(port) as Extract<ToMatchers, { type: 'open' }>[];
    const state = new MatcherState(VOCAB, first!.state);
    state.callsOrReturns();
    expect(slow.ready).toBe(false);
    vi.advanceTimersByTime(5_000);
    expect([slow.ready, other.ready]).toEqual([true, false]);
    expect(stuck).toEqual([{ thread: 0, incarnation: 0 }]);
    expect(faultOf(slow)).toMatch(/longer than 2000 ms for one token/);
    expect(received(connect(1))).toMatchObject([{ type: 'open', id: 1 }]);
  });

  it('waits while calls end and others begin', () => {
    const port = connect(0);
    const matcher = open();
    const state = stateOf(port);
    for (let calls = 0; calls < 5; calls += 1) {
      state.callsOrReturns();
      expect(matcher.ready).toBe(false);
      vi.advanceTimersByTime(1_900);
      state.callsOrReturns();
      expect(matcher.ready).toBe(false);
    }
    expect(stuck).toEqual([]);
  });
});
