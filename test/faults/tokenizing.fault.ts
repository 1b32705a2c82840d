// Texts that are cheap to send and dear to tokenize, as many as a request takes, and schemas that are dear to check,
// beside a client that asks for little.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import { copyModel } from '../support/changed-model.js';
import { alternatives, DEAR_SCHEMAS, responseFormat } from '../support/dear-schemas.js';
import { sst2 } from '../support/server-process.js';
import { Attackers } from './attackers.js';
import { type FaultReport, fault } from './fault.js';
import { percentile, Subject } from './subject.js';

const SECONDS = 30;
/** A short text waits for one long text. The slowest of a request, unordered marks, takes a quarter of this. */
const ONE_TEXT_MS = 300;
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
    what: 'many ids',
    path: '/v1/detokenize',
    bodies: [
      ['of all tokens', { ids: Array.from({ length: 65_536 }, (_, at) => at % 8_000) }, 200],
      ['in short lists', { ids: Array.from({ length: 32 }, (_, at) => Array(2_048).fill(at)) }, 200],
    ],
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
  report.atMost('p99 of the bystander beyond twice its p99 alone,', busy - 2 * alone, ONE_TEXT_MS, 'ms');
  await subject.recovered(report);
  await subject.stop();
}

for (const attack of ATTACKS) {
  fault(attack.what, (report) => beside(report, attack));
}

/** A text of the bystander may wait until a refused one has had its time, and until a new thread has started. */
const REPLACED_MS = 5_000;
const BEYOND = 5;

fault('texts that take longer than a text may', async (report) => {
  const folder = mkdtempSync(join(tmpdir(), 'sida-slow-'));
  const model = copyModel(folder);
  const file = join(model, 'tokenizer.json');
  const tokenizer = JSON.parse(readFileSync(file, 'utf8'));
  const backtracks = { type: 'Replace', pattern: { Regex: '(?:(?:qz)+)+!' }, content: 'x' };
  const normalizers = [tokenizer.normalizer ?? [], backtracks].flat();
  writeFileSync(file, JSON.stringify({ ...tokenizer, normalizer: { type: 'Sequence', normalizers } }));
  const subject = await Subject.startWith({ model });
  let slowest = 0;
  const attack = async () => {
    for (let times = 0; times < BEYOND; times += 1) {
      const body = { input: `${'qz'.repeat(100)}?` };
      const begin = performance.now();
      const { status, json } = await subject.ask('/v1/tokenize', { method: 'POST', body });
      expect([status, json.error.message]).toEqual([
        422,
        expect.stringMatching(/tokenizer longer than \d+ ms/),
      ]);
      slowest = Math.max(slowest, performance.now() - begin);
    }
  };
  const attacked = attack();
  const latencies = await subject.goodUntil(attacked, 20);
  await attacked;
  report.note(`${BEYOND} refused with 422; a bystander: ${latencies.length} right answers`);
  const refusal = { what: 'the slowest refusal', value: slowest, times: 5 };
  report.withinTime(
    'the slowest answer of the bystander',
    Math.max(...latencies),
    REPLACED_MS,
    'ms',
    refusal,
  );
  const metrics = await subject.metrics();
  expect(metrics('sida_tokenizer_ended_total')).toBe(BEYOND);
  expect(metrics('sida_engine_restarts_total')).toBe(0);
  await subject.recovered(report);
  await subject.stop();
  rmSync(folder, { recursive: true });
});
