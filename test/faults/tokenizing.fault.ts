// Texts that are cheap to send and dear to tokenize, as many as a request takes, and schemas that are dear to check,
// beside a client that asks for little.
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import { alternatives, DEAR_SCHEMAS, responseFormat } from '../support/dear-schemas.js';
import { sst2 } from '../support/server-process.js';
import { Attackers } from './attackers.js';
import { type FaultReport, fault } from './fault.js';
import { percentile, Subject } from './subject.js';

const SECONDS = 30;
const fill = (unit: string, bytes: number) => unit.repeat(Math.floor(bytes / Buffer.byteLength(unit)));
const many = (unit: string) => Array.from({ length: 32 }, () => fill(unit, 32_600));
const SENTENCE = sst2()[0]!.text;

/** Of a server without room, and of a deadline that passed. */
const BUSY = [429, 503, 504];

/** With the status that each body gets, where the server has room for it. */
type Body = [name: string, body: object, status: number];

interface Attack {
  what: string;
  path: string;
  bodies: Body[];
  /** Who is attacked. Default: switch-mini. */
  sample?: 'mini' | 'chat';
}

/** Unknown letters, one letter, unordered marks, joined emoji, digits: what a tokenizer may take quadratic time for. */
const UNITS: [name: string, unit: string, answer: 'served' | 'too large' | 'too long'][] = [
  ['unknown letters', 'ш', 'served'],
  ['one letter', 'a', 'too long'],
  ['unordered marks', '\u0301\u0323', 'too long'],
  ['emoji', '👨‍👩‍👧‍👦', 'served'],
  ['digits', '7', 'too long'],
  ['blanks', ' ', 'served'],
  ['line ends', '\n', 'too large'],
  ['halves of special tokens', '<extra_id_', 'too long'],
  ['special tokens', '</s>', 'too long'],
  ['letters that become others', 'ﾞ\u0301', 'too long'],
];
const ofUnits = (tooLong: number, bodyOf: (unit: string) => object): Body[] =>
  UNITS.map(([name, unit, answer]) => {
    return [name, bodyOf(unit), { served: 200, 'too large': 413, 'too long': tooLong }[answer]];
  });

const PRIVATE = Array.from({ length: 6_399 }, (_, at) => String.fromCharCode(0xe000 + at)).join('');
const chatOf = (...contents: string[]) => ({
  messages: contents.map((content) => ({ role: 'user', content })),
  max_tokens: 1,
});

const ATTACKS: Attack[] = [
  {
    what: 'lists of 32 long texts',
    path: '/v1/tokenize',
    bodies: ofUnits(422, (unit) => ({ input: many(unit) })),
  },
  {
    what: 'long inputs',
    path: '/v1/classify',
    bodies: ofUnits(400, (unit) => ({ task: 'sst2', input: many(unit) })),
  },
  {
    what: 'many labels',
    path: '/v1/classify',
    // Those that become many tokens are refused; the others would be scored, which is another matter.
    bodies: UNITS.filter(([, unit]) => ['a', '7', '\u0301\u0323', '<extra_id_'].includes(unit)).map(
      ([name, unit]) => [
        name,
        {
          template: '{text}',
          labels: Array.from({ length: 64 }, (_, label) => `${label} ${fill(unit, 1_000)}`),
          input: SENTENCE,
        },
        422,
      ],
    ),
  },
  {
    what: 'schemas that are dear to check',
    path: '/v1/completions',
    bodies: [
      ...DEAR_SCHEMAS.filter(([, , allowed]) => !allowed),
      ['few alternatives', alternatives(1, 8, 10), true] as const,
    ].map(([name, schema, allowed]) => [
      name,
      { prompt: 'a', max_tokens: 2, response_format: responseFormat(schema) },
      allowed ? 200 : 400,
    ]),
  },
  {
    what: 'conversations of many private characters',
    path: '/v1/chat/completions',
    sample: 'chat',
    bodies: [
      [
        'all but one, behind a long text',
        chatOf(...Array.from({ length: 15 }, () => fill('a', 65_000)), PRIVATE),
        400,
      ],
      ['all but one', chatOf(PRIVATE), 400],
      ['some', chatOf(PRIVATE.slice(0, 200)), 200],
    ],
  },
];

async function beside(report: FaultReport, { what, path, bodies, sample = 'mini' }: Attack): Promise<void> {
  const subject = await Subject.startWith({ sample });
  // As long as with the attack: the highest hundredth of few answers is mostly too low.
  const calm = await subject.goodUntil(delay(SECONDS * 1_000), 20);
  const texts = bodies.map(([name, body]) => ({ name, body: JSON.stringify(body) }));
  const attackers = new Attackers({
    port: subject.port,
    pauseMs: 10,
    lists: [{ what, path, bodies: texts }],
  });
  await attackers.begin();
  const disturbed = await subject.goodUntil(delay(SECONDS * 1_000), 20);
  await attackers.stop();
  const [alone, busy] = [calm, disturbed].map((latencies) => percentile(latencies, 0.99)) as [number, number];
  const byStatus = new Map<string, number>();
  for (const [as, count] of attackers.answers) {
    const status = as.split(' ').at(-1)!;
    byStatus.set(status, (byStatus.get(status) ?? 0) + count);
  }
  report.note([...byStatus].map(([status, count]) => `${count} × ${status}`).join(', '));
  report.note(`a bystander: ${disturbed.length} answers, p50 ${percentile(disturbed, 0.5).toFixed(0)} ms`);
  report.note(`p99 ${busy.toFixed(0)} ms, alone ${alone.toFixed(0)} ms`);
  expect(attackers.failures).toEqual([]);
  // A server that refuses everything would disturb nobody.
  for (const [name, , status] of bodies) {
    const statuses = attackers.statusesOf(what, name);
    expect(statuses, name).toContain(status);
    expect([status, ...BUSY], name).toEqual(expect.arrayContaining(statuses));
  }
  const metrics = await subject.metrics();
  expect(metrics('sida_engine_restarts_total')).toBe(0);
  expect(metrics('sida_tokenizer_ended_total')).toBe(0);
  report.atMost('p99 of the bystander, of its p99 alone,', busy / alone, 2, '×');
  await subject.recovered(report);
  await subject.stop();
}

for (const attack of ATTACKS) {
  fault(attack.what, (report) => beside(report, attack));
}
