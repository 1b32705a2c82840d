import { expect, it } from 'vitest';
import { SidaError } from '../../../../src/errors.js';
import { DeltaWriter } from '../../../../src/queue/redis/delta-writer.js';

const delta = (text: string) => ({ index: 0, text, tokenIds: [7], logprobs: null, finishReason: null });

/** A ledger that answers each write when the test says so. */
function setup() {
  const writes: { from: number; texts: string[]; answer: (as: string | Error) => void }[] = [];
  let errors = 0;
  const writer = new DeltaWriter({
    append: (from, deltas) =>
      new Promise((resolve, reject) => {
        const answer = (as: string | Error) => (as instanceof Error ? reject(as) : resolve(as));
        writes.push({ from, texts: deltas.map((each) => JSON.parse(each).text), answer });
      }),
    onError: () => {
      errors += 1;
    },
  });
  return { writer, writes, errors: () => errors };
}

it('sends what arrives during a write with the next one, and says how many deltas come before', async () => {
  const { writer, writes } = setup();
  void writer.add(delta('a'));
  void writer.add(delta('b'));
  void writer.add(delta('c'));
  writes[0]!.answer('ok');
  await Promise.resolve();
  await Promise.resolve();
  writes[1]!.answer('ok');
  await writer.written();
  expect(writes.map(({ from, texts }) => [from, texts])).toEqual([
    [0, ['a']],
    [1, ['b', 'c']],
  ]);
});

it.each([
  ['the ledger has no room', 'full', { code: 'cannot_run', ran: true }],
  ['a write fails', new SidaError({ code: 'internal', message: 'broken' }), { code: 'internal', ran: false }],
])('ends the run and writes no more when %s', async (_name, answer, error) => {
  const { writer, writes, errors } = setup();
  void writer.add(delta('a'));
  void writer.add(delta('b'));
  writes[0]!.answer(answer);
  await expect(writer.written()).rejects.toMatchObject(error);
  await writer.add(delta('c'));
  expect([writes.length, errors(), writer.error]).toMatchObject([1, 1, error]);
});
