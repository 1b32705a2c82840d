// Prompts and numbers that are cheap to send and dear to take.
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect } from 'vitest';
import { DEAR_SCHEMAS, responseFormat } from '../support/dear-schemas.js';
import { MALFORMED_BODIES } from '../support/malformed.js';
import { fault } from './fault.js';
import { Subject } from './subject.js';

let subject: Subject;
beforeAll(async () => {
  subject = await Subject.start();
});
afterAll(() => subject.stop());

/** As much of `text` as one input may have. */
const fill = (text: string) => text.repeat(Math.floor(65_536 / Buffer.byteLength(text)));
const TEXTS: [what: string, text: string][] = [
  ['one letter', fill('a')],
  ['one letter and blanks', fill('a ')],
  ['blanks', fill(' ')],
  ['line ends', fill('\n')],
  ['emoji joined to families', fill('👨‍👩‍👧‍👦')],
  ['combining marks', `a${fill('\u0301').slice(1)}`],
  ['right-to-left overrides', fill('\u202e')],
  ['special tokens', fill('<extra_id_0></s><pad><unk>')],
  ['halves of special tokens', fill('<extra_id_')],
  ['word marks', fill('▁')],
  ['the widest letter', fill('﷽')],
  ['letters beyond the plane', fill('𠜎')],
  ['NUL', fill('\0')],
];
const NUMBERS = [2 ** 53, 2 ** 31, -1, 0, 1.5, 1e308, '16', null, true, [16], {}];

/** Since the last scrape, which starts the figures anew. One block among hundreds of samples shows only in the most. */
async function lagMs(): Promise<{ p99: number; most: number }> {
  const value = await subject.metrics();
  const ms = (figure: string) => 1000 * value(`sida_nodejs_eventloop_lag_${figure}_seconds`);
  return { p99: ms('p99'), most: ms('max') };
}

fault('F24', 'prompt bombs', async (report) => {
  await lagMs();
  await subject.goodUntil(delay(3_000));
  const quiet = await lagMs();
  let [served, refused] = [0, 0];
  const send = async (path: string, body: object | string | Buffer, others: number[] = []) => {
    const { status, text } = await subject.ask(path, { method: 'POST', body });
    expect([200, 400, 413, 422, ...others], `${path} ${text.slice(0, 300)}`).toContain(status);
    if (status === 200) served += 1;
    else refused += 1;
  };

  for (const [, text] of TEXTS) {
    await Promise.all([
      send('/v1/tokenize', { input: text }),
      send('/v1/classify', { task: 'sst2', input: text }),
      send('/v1/completions', { prompt: text, max_tokens: 1 }),
      send('/v1/completions', { prompt: 'a', max_tokens: 4, stop: [text.slice(0, 300)] }),
      send('/v1/classify', { template: `${text.slice(0, 30_000)} {text}`, labels: ['a', 'b'], input: text }),
    ]);
  }
  report.note(`${TEXTS.length} texts of 64 KiB, five ways: ${served} served, ${refused} refused`);

  [served, refused] = [0, 0];
  await send('/v1/completions', { prompt: 'a'.repeat(1_000_000) });
  for (const element of [5, -1, 'a', null, [], {}, [[[]]]]) {
    await send('/v1/completions', { prompt: Array.from({ length: 120_000 }, () => element) });
    await send('/v1/classify', { task: 'sst2', input: Array.from({ length: 120_000 }, () => element) });
  }
  await send('/v1/completions', { prompt: Array.from({ length: 500_000 }, () => 5) });
  await send('/v1/classify', {
    task: 'sst2',
    input: Object.fromEntries(Array.from({ length: 80_000 }, (_, i) => [`k${i}`, ''])),
  });
  await send('/v1/completions', { prompt: [5, 2 ** 53] });
  await send('/v1/completions', { prompt: [-1] });
  await send('/v1/completions', { prompt: [0.5] });
  await send('/v1/tokenize', { input: Array.from({ length: 33 }, () => 'a') });
  expect([served, refused]).toEqual([0, 21]);
  report.note(`${refused} lists and objects as long as a body may be: all refused`);
  refused = 0;
  for (const number of NUMBERS) {
    for (const field of ['max_tokens', 'n', 'logprobs', 'routing_k', 'temperature', 'top_p', 'seed']) {
      await send('/v1/completions', { prompt: 'a', [field]: number });
    }
  }
  report.note(`${NUMBERS.length} numbers in 7 fields: ${served} served, ${refused} refused`);

  [served, refused] = [0, 0];
  for (const [what, schema, allowed] of DEAR_SCHEMAS) {
    const before = refused;
    const format = { response_format: responseFormat(schema) };
    // The engine may refuse what takes it too long to compile.
    await send('/v1/completions', { prompt: 'a', max_tokens: 2, ...format }, [503]);
    if (!allowed) expect(refused, what).toBe(before + 1);
  }
  report.note(`${DEAR_SCHEMAS.length} schemas that are dear to check: ${served} served, ${refused} refused`);
  [served, refused] = [0, 0];
  const chats = MALFORMED_BODIES.filter(([, , , , path]) => path !== undefined);
  for (const [, body, , , path] of chats) await send(path!, body);
  expect([served, refused]).toEqual([0, chats.length]);
  report.note(`${refused} conversations with long lists and deep arguments: all refused`);

  const lag = await lagMs();
  const beside = (value: number, times: number) => ({ what: 'that beside good requests', value, times });
  report.withinTime('event loop lag p99', lag.p99, 50, 'ms', beside(quiet.p99, 10));
  report.withinTime('the longest event loop lag', lag.most, 250, 'ms', beside(quiet.most, 25));
  await subject.recovered(report);
});
