// What a started request keeps of its batch.
import { expect, it } from 'vitest';
import type { HashTable } from '../../../src/protocol/hash-table.js';
import { Admission } from '../../../src/scheduler/admission.js';
import type { Request } from '../../../src/scheduler/request.js';

/** Starts requests of two keys in one batch. Returns the tables that each sees as it starts, and keeps. */
function started(routingK: number, encodes: boolean) {
  const table = {} as HashTable;
  const seen: { request: Request; atStart: number }[] = [];
  const work = { kind: 'generate', maxTokens: 1, logprobs: null, choices: [null] };
  const requests = ['a', 'b', 'a'].map((owner, item) => ({
    ...{ item, job: item, jobItems: 1, routingK, owner, work, tokens: new Int32Array(2) },
  }));
  const queue = [{ batch: { id: 0, routingK, requests }, tables: null }];
  const options = {
    queue: { tryTake: () => queue.shift(), waiting: () => queue, blocked: false },
    running: { of: () => 0, keepsPrefixes: false, start: () => true, count: 1, freePages: 1 },
    kind: { takesMore: () => true, makeWay: () => false },
    encodes,
    onBatch: () => [table],
    onStart: (own: readonly Request[]) =>
      own.forEach((request) => {
        seen.push({ request, atStart: request.batch.tables.length });
      }),
  };
  new Admission(options as unknown as ConstructorParameters<typeof Admission>[0]).startRequests();
  return seen.map(({ request, atStart }) => [atStart, request.batch.tables.length]);
}

it('lets the tables of a batch go with its prompts', () => {
  expect(started(0, false)).toEqual([
    [1, 0],
    [1, 0],
    [1, 0],
  ]);
});

it.each([
  ['requests that tables route', 1, false],
  ['an encoder-decoder model, whose labels read them later', 0, true],
] as const)('keeps the tables for %s', (_, routingK, encodes) => {
  expect(started(routingK, encodes)).toEqual([
    [1, 1],
    [1, 1],
    [1, 1],
  ]);
});
