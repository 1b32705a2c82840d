// Texts that are cheap to send and dear to tokenize, as many as a request takes, beside a client that classifies.
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import { sst2 } from '../support/server-process.js';
import { Attackers } from './attackers.js';
import { type FaultReport, fault } from './fault.js';
import { percentile, Subject } from './subject.js';

const SECONDS = 30;
const fill = (unit: string, bytes: number) => unit.repeat(Math.floor(bytes / Buffer.byteLength(unit)));
const many = (unit: string) => Array.from({ length: 32 }, () => fill(unit, 32_600));
const SENTENCE = sst2()[0]!.text;

/** Unknown letters, one letter, unordered marks, joined emoji, digits: what a tokenizer may take quadratic time for. */
const UNITS = ['ш', 'a', '\u0301\u0323', '👨‍👩‍👧‍👦', '7', ' ', '\n', '<extra_id_', '</s>', 'ﾞ\u0301'];

const ATTACKS: [what: string, path: string, bodies: object[]][] = [
  ['lists of 32 long texts', '/v1/tokenize', UNITS.map((unit) => ({ input: many(unit) }))],
  ['long inputs', '/v1/classify', UNITS.map((unit) => ({ task: 'sst2', input: many(unit) }))],
  [
    'many labels',
    '/v1/classify',
    // Those that become many tokens are refused; the others would be scored, which is another matter.
    ['a', '7', '\u0301\u0323', '<extra_id_'].map((unit) => ({
      template: '{text}',
      labels: Array.from({ length: 64 }, (_, label) => `${label} ${fill(unit, 1_000)}`),
      input: SENTENCE,
    })),
  ],
];

async function beside(report: FaultReport, what: string, path: string, bodies: object[]): Promise<void> {
  const subject = await Subject.start();
  // As long as with the attack: the highest hundredth of few answers is mostly too low.
  const calm = await subject.goodUntil(delay(SECONDS * 1_000), 20);
  const texts = bodies.map((body) => JSON.stringify(body));
  const attackers = new Attackers({
    port: subject.port,
    headers: {},
    pauseMs: 10,
    pingers: 0,
    slowBodies: 0,
    lists: [{ what, path, bodies: texts }],
  });
  await attackers.begin();
  const disturbed = await subject.goodUntil(delay(SECONDS * 1_000), 20);
  await attackers.stop();
  const [alone, busy] = [calm, disturbed].map((latencies) => percentile(latencies, 0.99)) as [number, number];
  report.note([...attackers.answers].map(([as, count]) => `${count} × ${as.split(' ').at(-1)}`).join(', '));
  report.note(`a bystander: ${disturbed.length} answers, p50 ${percentile(disturbed, 0.5).toFixed(0)} ms`);
  report.note(`p99 ${busy.toFixed(0)} ms, alone ${alone.toFixed(0)} ms`);
  expect(attackers.failures).toEqual([]);
  expect(attackers.sent).toBeGreaterThan(0);
  const metrics = await subject.metrics();
  expect(metrics('sida_engine_restarts_total')).toBe(0);
  expect(metrics('sida_tokenizer_ended_total')).toBe(0);
  report.atMost('p99 of the bystander, of its p99 alone,', busy / alone, 2, '×');
  await subject.recovered(report);
  await subject.stop();
}

for (const [what, path, bodies] of ATTACKS) {
  fault('F38', what, (report) => beside(report, what, path, bodies));
}
