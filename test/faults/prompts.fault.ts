// Prompts, numbers, schemas and conversations that are cheap to send and dear to take.
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import { DEAR_SCHEMAS, responseFormat } from '../support/dear-schemas.js';
import { MALFORMED_BODIES } from '../support/malformed.js';
import { serverFault } from './subject.js';

const many = <T>(count: number, element: T) => Array.from({ length: count }, () => element);
/** Each as often as one input has room for it: letters, blanks, emoji, marks, special tokens and halves of them, … */
const PIECES = [
  ...['a', 'a ', ' ', '\n', '👨‍👩‍👧‍👦', '\u0301', '\u202e', '<extra_id_0></s><pad><unk>', '<extra_id_'],
  ...['▁', '﷽', '𠜎', '\0'],
];
const LISTS: [path: string, body: object][] = [
  ...[5, -1, 'a', null, [], {}, [[[]]]].flatMap((element): [string, object][] => [
    ['/v1/completions', { prompt: many(120_000, element) }],
    ['/v1/classify', { task: 'sst2', input: many(120_000, element) }],
  ]),
  ['/v1/completions', { prompt: 'a'.repeat(1_000_000) }],
  ['/v1/completions', { prompt: many(500_000, 5) }],
  [
    '/v1/classify',
    { task: 'sst2', input: Object.fromEntries(many(80_000, '').map((_, i) => [`k${i}`, ''])) },
  ],
  ['/v1/completions', { prompt: [5, 2 ** 53] }],
  ['/v1/completions', { prompt: [-1] }],
  ['/v1/completions', { prompt: [0.5] }],
  ['/v1/tokenize', { input: many(33, 'a') }],
];
const NUMBERS = [2 ** 53, 2 ** 31, -1, 0, 1.5, 1e308, '16', null, true, [16], {}];
const FIELDS = ['max_tokens', 'n', 'logprobs', 'routing_k', 'temperature', 'top_p', 'seed'];

serverFault('prompt bombs', {}, async (subject, report) => {
  /** Since the last scrape, which starts the figures anew. One block among hundreds shows only in the most. */
  const lagMs = async () => {
    const value = await subject.metrics();
    const ms = (figure: string) => 1000 * value(`sida_nodejs_eventloop_lag_${figure}_seconds`);
    return { p99: ms('p99'), most: ms('max') };
  };
  const send = async (path: string, body: object | string | Buffer, others: number[] = []) => {
    const { status, text } = await subject.ask(path, { method: 'POST', body });
    expect([200, 400, 413, 422, ...others], `${path} ${text.slice(0, 300)}`).toContain(status);
    return status === 200;
  };
  const tell = (what: string, served: boolean[]) =>
    report.note(`${what}: ${served.filter(Boolean).length} of ${served.length} served, the others refused`);
  await lagMs();
  await subject.goodUntil(delay(3_000));
  const quiet = await lagMs();

  const texts: boolean[] = [];
  for (const piece of PIECES) {
    const text = piece.repeat(Math.floor(65_536 / Buffer.byteLength(piece)));
    const all = await Promise.all([
      send('/v1/tokenize', { input: text }),
      send('/v1/classify', { task: 'sst2', input: text }),
      send('/v1/completions', { prompt: text, max_tokens: 1 }),
      send('/v1/completions', { prompt: 'a', max_tokens: 4, stop: [text.slice(0, 300)] }),
      send('/v1/classify', { template: `${text.slice(0, 30_000)} {text}`, labels: ['a', 'b'], input: text }),
    ]);
    texts.push(...all);
  }
  tell('texts of 64 KiB, five ways', texts);
  const numbers: boolean[] = [];
  for (const number of NUMBERS)
    for (const field of FIELDS) numbers.push(await send('/v1/completions', { prompt: 'a', [field]: number }));
  tell('numbers', numbers);
  for (const [path, body] of LISTS) expect(await send(path, body), path).toBe(false);
  const chats = MALFORMED_BODIES.filter(([, , , , path]) => path !== undefined);
  for (const [what, body, , , path] of chats) expect(await send(path!, body), what).toBe(false);
  report.note(
    `${LISTS.length} lists and ${chats.length} conversations as long as a body may be: all refused`,
  );
  for (const [what, schema, allowed] of DEAR_SCHEMAS) {
    const body = { prompt: 'a', max_tokens: 2, response_format: responseFormat(schema) };
    // The engine may refuse what takes it too long to compile.
    const served = await send('/v1/completions', body, [503]);
    if (!allowed) expect(served, what).toBe(false);
  }

  const lag = await lagMs();
  const beside = (value: number, times: number) => ({ what: 'that beside good requests', value, times });
  report.withinTime('event loop lag p99', lag.p99, 50, 'ms', beside(quiet.p99, 10));
  report.withinTime('the longest event loop lag', lag.most, 250, 'ms', beside(quiet.most, 25));
});
