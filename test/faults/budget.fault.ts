// The budget moves under load: it is never passed, and no answer is another.
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import { percentile, type Subject, serverFault } from './subject.js';

const CHANGES = 50;
const CLIENTS = 4;
const WINDOW_MS = 1_000;

/** The milliseconds of the good requests that clients send, one after the other each, while `work` goes on. */
async function loaded(subject: Subject, work: () => Promise<unknown>): Promise<number[]> {
  let running = true;
  const times: number[] = [];
  const client = async () => {
    while (running) times.push(await subject.oneGood());
  };
  const clients = Promise.all(Array.from({ length: CLIENTS }, client));
  // A failure is told below.
  clients.catch(() => undefined);
  await work().finally(() => {
    running = false;
  });
  await clients;
  return times;
}

serverFault('budget moved under load', { args: ['--read-depth', '1'] }, async (subject, report) => {
  const device = async () => (await subject.ask('/admin/budget')).json.device;
  const put = (bytes: number) =>
    subject.ask('/admin/budget', { method: 'PUT', body: { device: String(bytes) } });
  const p99During = async (ms: number) => percentile(await loaded(subject, () => delay(ms)), 0.99);
  const { smallest_bytes: floor, budget_bytes: most } = await device();
  const quiet = await p99During(3 * WINDOW_MS);

  let [samples, watching] = [0, true];
  const watched = (async () => {
    for (; watching; samples += 1) {
      const { used_bytes, budget_bytes } = await device();
      expect(used_bytes).toBeLessThanOrEqual(budget_bytes);
      await delay(5);
    }
  })();
  watched.catch(() => undefined);
  let raised = 0;
  const times = await loaded(subject, async () => {
    for (let change = 0; change < CHANGES; change += 1) {
      const anywhere = Math.round(floor + Math.random() * (most - floor));
      // Lowered to a quarter, to the floor, raised, and anywhere.
      const bytes = [Math.round(floor + 0.25 * (most - floor)), floor, most][change % 5] ?? anywhere;
      const { status, text, json } = await put(bytes);
      expect(status, text).toBe(200);
      expect(json.device.budget_bytes).toBe(bytes);
      expect(json.device.used_bytes).toBeLessThanOrEqual(bytes);
      await delay(Math.random() * 100);
    }
    const held = (await device()).budget_bytes;
    const refused = await put(floor - 1);
    expect([refused.status, refused.json.error.code]).toEqual([422, 'budget_too_small']);
    expect(refused.text).toContain(String(floor));
    expect((await device()).budget_bytes).toBe(held);
    raised = performance.now();
    expect((await put(most)).status).toBe(200);
  });
  watching = false;
  await watched;
  report.note(`${CHANGES} changes, ${times.length} answers under them right, ${samples} samples within`);
  expect((await device()).peak_bytes).toBeLessThanOrEqual(most);

  let now = await p99During(WINDOW_MS);
  while (now > 1.5 * quiet && performance.now() - raised < 30_000) now = await p99During(WINDOW_MS);
  const backMs = performance.now() - raised;
  report.note(`p99 ${quiet.toFixed(0)} ms before, ${now.toFixed(0)} ms after`);
  const windows = { what: 'a window of the load', value: WINDOW_MS / 1000, times: 30 };
  report.withinTime('p99 back within 1.5 times after', backMs / 1000, 10, 's', windows);
  report.atMost('p99 after, of that before,', now / quiet, 3, '×');
  const metric = await subject.metrics();
  expect([metric('sida_engine_restarts_total'), metric('sida_device_budget_bytes')]).toEqual([0, most]);
});
