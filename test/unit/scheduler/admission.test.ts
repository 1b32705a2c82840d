// Which requests start, and what they keep of their batch.
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

/** Batches of one request a key and due time, such as `a3`, over `pages` pages: each holds one until it ends. */
function pages(free: number) {
  const queue: { batch: { id: number; requests: object[] }; tables: null }[] = [];
  const begun: string[] = [];
  const owners: string[] = [];
  let id = 0;
  let last: Request | undefined;
  const start = (request: Request) => {
    const { owner, dueMs } = request;
    if (free === 0) return false;
    free -= 1;
    owners.push(owner);
    begun.push(request.suspended === null ? `${owner}${dueMs}` : 'suspended');
    last = request;
    return true;
  };
  const options = {
    queue: { tryTake: () => queue.shift(), waiting: () => queue, blocked: false },
    running: {
      ...{ keepsPrefixes: false, count: 1, freePages: 0, start },
      of: (owner: string) => owners.filter((each) => each === owner).length,
    },
    kind: { takesMore: () => true, makeWay: () => false },
    encodes: false,
    onBatch: () => [],
    onStart: () => undefined,
  };
  const admission = new Admission(options as unknown as ConstructorParameters<typeof Admission>[0]);
  const work = { kind: 'generate', maxTokens: 1, logprobs: null, choices: [null] };
  return {
    begun,
    send: (...names: string[]) => {
      for (const name of names) {
        const one = { item: id, job: id, jobItems: 1, routingK: 0, work, tokens: new Int32Array(2) };
        const requests = [{ ...one, owner: name[0], dueMs: Number(name.slice(1)) }];
        queue.push({ batch: { id, requests }, tables: null });
        id += 1;
      }
      admission.startRequests();
    },
    /** The last request that began gives its page away to one of another key. */
    suspend: () => {
      owners.splice(owners.indexOf(last!.owner), 1, 'other');
      last!.suspended = {} as Request['suspended'];
      admission.suspend(last!);
    },
    end: (owner: string) => {
      owners.splice(owners.indexOf(owner), 1);
      free += 1;
      admission.startRequests();
    },
  };
}

it('starts what is due first as pages become free, also from batches that came later', () => {
  const { begun, send, end } = pages(1);
  send('a50', 'a40', 'a60');
  send('a10');
  for (let i = 0; i < 3; i += 1) end('a');
  expect(begun).toEqual(['a50', 'a10', 'a40', 'a60']);
});

it('starts what is due first of the key that has least', () => {
  const { begun, send, end } = pages(2);
  send('a10', 'a20', 'a30', 'b90');
  end('a');
  end('a');
  expect(begun).toEqual(['a10', 'a20', 'b90', 'a30']);
});

it('starts a preempted generation before the new requests of its key', () => {
  const { begun, send, end, suspend } = pages(1);
  send('a90');
  suspend();
  send('a10', 'a20');
  end('other');
  end('a');
  expect(begun).toEqual(['a90', 'suspended', 'a10']);
});
