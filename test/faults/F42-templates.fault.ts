// Templates and fields that are small apart and enormous together.
import { afterAll, beforeAll, expect } from 'vitest';
import { fault } from './fault.js';
import { Subject } from './subject.js';

let subject: Subject;
beforeAll(async () => {
  subject = await Subject.start();
});
afterAll(() => subject.stop());

const LABELS = ['a', 'b'];
const fields = (count: number) => Array.from({ length: count }, (_, i) => `f${i}`);
const BODIES: [what: string, body: object][] = [
  [
    'one field 21,845 times',
    { template: '{a}'.repeat(21_845), labels: LABELS, input: { a: 'x'.repeat(60_000) } },
  ],
  ['one field twice too large', { template: '{a}{a}', labels: LABELS, input: { a: 'x'.repeat(40_000) } }],
  ['wide letters', { template: '{a}'.repeat(10_000), labels: LABELS, input: { a: '﷽'.repeat(20_000) } }],
  [
    'a long template for 32 short inputs',
    { template: `${'x'.repeat(60_000)}{a}`, labels: LABELS, input: Array.from({ length: 32 }, () => 'y') },
  ],
  [
    '64 fields, each many times',
    {
      template: fields(64)
        .map((field) => `{${field}}`.repeat(150))
        .join(''),
      labels: LABELS,
      input: Object.fromEntries(fields(64).map((field) => [field, 'z'.repeat(10_000)])),
    },
  ],
];

fault('F42', 'templates that multiply their fields', async (report) => {
  const risen = await subject.watchMemory();
  await subject.metrics();
  for (const [what, body] of BODIES) {
    const sent = Array.from({ length: 4 }, () => subject.ask('/v1/classify', { method: 'POST', body }));
    for (const { status, json } of await Promise.all(sent)) {
      expect([status, json.error?.code], what).toEqual([413, 'request_too_large']);
      expect(json.error.details, what).toMatchObject({
        bytes: expect.any(Number),
        limit: expect.any(Number),
      });
      expect(json.error.details.bytes, what).toBeGreaterThan(json.error.details.limit);
    }
  }
  report.note(`${BODIES.length} kinds, four times each: all refused with 413 and both numbers`);
  const mib = Math.round(risen() / 1024 ** 2);
  report.note(`memory rose by ${mib} MiB at its peak`);
  expect(mib).toBeLessThan(64);
  await subject.recovered(report);
});
