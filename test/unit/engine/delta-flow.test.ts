import { describe, expect, it } from 'vitest';
import { DELTAS_IN_FLIGHT, DeltaFlow } from '../../../src/engine/delta-flow.js';
import { DeltaTaker } from '../../../src/engine/delta-taker.js';
import { SidaError } from '../../../src/errors.js';
import type { CompletionDelta, FromEngine } from '../../../src/protocol/engine-messages.js';
import type { AnswerPart } from '../../../src/text/chat/answer-parts.js';

function piece(index: number, token: number, last = false): CompletionDelta {
  return {
    index,
    text: `${token} `,
    tokenIds: [token],
    logprobs: [{ id: token, token: `${token}`, offset: 0, logprob: -1, top: [] }],
    finishReason: last ? 'length' : null,
  };
}

const error = (id: string) =>
  ({ type: 'error', id, error: new SidaError({ code: 'internal', message: 'x' }).toBody() }) as const;

function bench() {
  const sent: FromEngine[] = [];
  const flow = new DeltaFlow((message) => sent.push(message));
  const pieces = (id: string) =>
    sent
      .flatMap((message) => (message.type === 'deltas' ? message.deltas : []))
      .filter((each) => each.id === id)
      .map(({ delta }) => delta);
  const tokens = (id: string, index = 0) =>
    pieces(id)
      .filter((delta) => delta.index === index)
      .flatMap(({ tokenIds }) => tokenIds);
  return { sent, flow, pieces, tokens };
}

const upTo = (n: number) => [...Array(n).keys()];

describe('deltas', () => {
  it('are sent as they arrive while the reader takes them', () => {
    const { sent, flow } = bench();
    for (const token of upTo(100)) {
      flow.add([
        { id: 'a', delta: piece(0, token) },
        { id: 'b', delta: piece(0, token) },
      ]);
      flow.taken('a', 1);
      flow.taken('b', 1);
    }
    expect(sent).toHaveLength(100);
    expect(sent[99]).toMatchObject({ deltas: [{ id: 'a' }, { id: 'b' }] });
  });

  it('of a stream that is not read wait and are joined, while other streams continue', () => {
    const { flow, pieces, tokens } = bench();
    for (const token of upTo(1_000)) {
      flow.add(['slow', 'fast'].map((id) => ({ id, delta: piece(0, token) })));
      flow.taken('fast', 1);
    }
    expect(pieces('slow')).toHaveLength(DELTAS_IN_FLIGHT);
    expect(tokens('fast')).toEqual(upTo(1_000));
    expect(pieces('fast')).toHaveLength(1_000);
    flow.taken('slow', 4);
    expect(pieces('slow')).toHaveLength(DELTAS_IN_FLIGHT + 4);
    // The joined deltas hold several tokens, but no more than the API process can take in one turn.
    expect(
      pieces('slow')
        .slice(DELTAS_IN_FLIGHT)
        .map(({ tokenIds }) => tokenIds.length),
    ).toEqual([8, 8, 8, 8]);
  });

  it('are complete and in order however they are taken, with the result last', () => {
    const { sent, flow, pieces, tokens } = bench();
    for (const token of upTo(200)) {
      flow.add(upTo(3).map((index) => ({ id: 'a', delta: piece(index, 10 * token + index, token === 199) })));
      if (token % 7 === 0) flow.taken('a', 5);
    }
    flow.end(error('a'));
    for (let taken = 0; taken < 1_000 && sent.at(-1)!.type !== 'error'; taken += 3) flow.taken('a', 3);
    expect(sent.at(-1)).toEqual(error('a'));
    expect(sent.filter(({ type }) => type === 'error')).toHaveLength(1);
    for (const index of upTo(3)) {
      expect(tokens('a', index)).toEqual(upTo(200).map((token) => 10 * token + index));
      const own = pieces('a').filter((delta) => delta.index === index);
      expect(own.map(({ text }) => text).join('')).toBe(
        tokens('a', index)
          .map((id) => `${id} `)
          .join(''),
      );
      expect(own.flatMap(({ logprobs }) => logprobs!.map(({ id }) => id))).toEqual(tokens('a', index));
      expect(own.map(({ finishReason }) => finishReason).filter(Boolean)).toEqual(['length']);
    }
    const before = sent.length;
    flow.taken('a', 1);
    expect(sent).toHaveLength(before);
  });

  it('join the parts of a conversation', () => {
    const { sent, flow } = bench();
    const parts: AnswerPart[] = [
      { kind: 'content', text: 'a' },
      { kind: 'content', text: 'b' },
      { kind: 'call', call: 0, name: 'f' },
      { kind: 'arguments', call: 0, text: '{' },
      { kind: 'arguments', call: 0, text: '}' },
      { kind: 'call', call: 1, name: 'g' },
      { kind: 'arguments', call: 1, text: '{}' },
    ];
    for (const token of upTo(DELTAS_IN_FLIGHT)) flow.add([{ id: 'a', delta: piece(0, token) }]);
    for (const [token, part] of parts.entries())
      flow.add([{ id: 'a', delta: { ...piece(0, token), text: '', parts: [part] } }]);
    const before = sent.length;
    flow.taken('a', 1);
    expect(sent.slice(before)).toMatchObject([
      {
        deltas: [
          {
            delta: {
              parts: [
                { kind: 'content', text: 'ab' },
                { kind: 'call', call: 0, name: 'f' },
                { kind: 'arguments', call: 0, text: '{}' },
                { kind: 'call', call: 1, name: 'g' },
                { kind: 'arguments', call: 1, text: '{}' },
              ],
            },
          },
        ],
      },
    ]);
    expect(parts[0]).toEqual({ kind: 'content', text: 'a' });
  });

  it('leave the given objects unchanged', () => {
    const { flow } = bench();
    const given = upTo(DELTAS_IN_FLIGHT + 2).map((token) => piece(0, token));
    for (const delta of given) flow.add([{ id: 'a', delta }]);
    expect(given).toEqual(upTo(DELTAS_IN_FLIGHT + 2).map((token) => piece(0, token)));
  });

  it('of a dropped stream are not sent, nor is its end', () => {
    const { sent, flow } = bench();
    for (const token of upTo(40)) flow.add([{ id: 'a', delta: piece(0, token) }]);
    flow.end(error('a'));
    const before = sent.length;
    flow.drop('a');
    flow.taken('a', 16);
    expect(sent).toHaveLength(before);
  });

  it('never stall: the taker reports often enough for more to be sent', () => {
    const { sent, flow, tokens } = bench();
    const got: number[] = [];
    const taker = new DeltaTaker(
      (delta) => void got.push(...delta.tokenIds),
      (count) => flow.taken('a', count),
    );
    for (const token of upTo(500)) flow.add([{ id: 'a', delta: piece(0, token) }]);
    flow.end(error('a'));
    // Read messages one by one, because taking a delta may send the next message.
    for (let at = 0; at < sent.length; at += 1) {
      const message = sent[at]!;
      if (message.type === 'deltas') for (const { delta } of message.deltas) taker.take(delta);
    }
    expect(got).toEqual(upTo(500));
    expect(tokens('a')).toEqual(got);
    expect(sent.at(-1)).toEqual(error('a'));
  });
});

describe('a taker with an asynchronous listener', () => {
  it('reports a delta once its promise has settled, resolved or rejected', async () => {
    const settle: (() => void)[] = [];
    let told = 0;
    const taker = new DeltaTaker(
      ({ index }) =>
        new Promise((resolve, reject) => {
          settle.push(index % 2 === 0 ? resolve : () => reject(new Error('away')));
        }),
      (count) => {
        told += count;
      },
    );
    for (const index of upTo(DELTAS_IN_FLIGHT)) taker.take(piece(index, 1));
    await Promise.resolve();
    expect(told).toBe(0);
    for (const each of settle) each();
    await new Promise((resolve) => setImmediate(resolve));
    expect(told).toBe(DELTAS_IN_FLIGHT);
  });
});
