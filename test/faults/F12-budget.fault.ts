// The budget moves under load: it is never passed, and no answer is another.
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect } from 'vitest';
import { fault } from './fault.js';
import { percentile, Subject } from './subject.js';

const CHANGES = 50;
const CLIENTS = 4;
const WINDOW_MS = 1_000;

interface Device {
  budget_bytes: number;
  used_bytes: number;
  peak_bytes: number;
  smallest_bytes: number;
}

let subject: Subject;
beforeAll(async () => {
  subject = await Subject.start('--read-depth', '1');
});
afterAll(() => subject.stop());

const device = async (): Promise<Device> => (await subject.ask('/admin/budget')).json.device;
const put = (bytes: number) =>
  subject.ask('/admin/budget', { method: 'PUT', body: { device: String(bytes) } });

/** Good requests one after the other, each client's, until told to end; each is checked. Times of all so far. */
function load(): { times: number[]; end: () => Promise<void> } {
  const times: number[] = [];
  let running = true;
  const client = async () => {
    while (running) times.push(await subject.oneGood());
  };
  const clients = Promise.all(Array.from({ length: CLIENTS }, client));
  // A failure is told when the load is ended.
  clients.catch(() => undefined);
  return {
    times,
    end: async () => {
      running = false;
      await clients;
    },
  };
}

/** Looks at the device until told to end; how often it did. */
function watch(): () => Promise<number> {
  let running = true;
  const looking = (async () => {
    let samples = 0;
    for (; running; samples += 1) {
      const { used_bytes, budget_bytes } = await device();
      expect(used_bytes).toBeLessThanOrEqual(budget_bytes);
      await delay(5);
    }
    return samples;
  })();
  looking.catch(() => undefined);
  return () => {
    running = false;
    return looking;
  };
}

async function p99During(ms: number): Promise<number> {
  const running = load();
  await delay(ms);
  await running.end();
  return percentile(running.times, 0.99);
}

/** Lowered to 25 %, to the floor, raised, and anywhere between. */
function budgets({ smallest_bytes: floor, budget_bytes: most }: Device): number[] {
  const quarter = Math.round(floor + 0.25 * (most - floor));
  const anywhere = () => Math.round(floor + Math.random() * (most - floor));
  const steps = [quarter, floor, most];
  return Array.from({ length: CHANGES }, (_, i) => (i % 5 < 3 ? steps[i % 5]! : anywhere()));
}

fault('F12', 'budget moved under load', async (report) => {
  const before = await device();
  const quiet = await p99During(3 * WINDOW_MS);

  const busy = load();
  const watched = watch();
  for (const bytes of budgets(before)) {
    const { status, text, json } = await put(bytes);
    expect(status, text).toBe(200);
    expect(json.device.budget_bytes).toBe(bytes);
    expect(json.device.used_bytes).toBeLessThanOrEqual(bytes);
    await delay(Math.random() * 100);
  }

  const held = (await device()).budget_bytes;
  const refused = await put(before.smallest_bytes - 1);
  expect([refused.status, refused.json.error.code]).toEqual([422, 'budget_too_small']);
  expect(refused.text).toContain(String(before.smallest_bytes));
  expect((await device()).budget_bytes).toBe(held);

  const raised = performance.now();
  expect((await put(before.budget_bytes)).status).toBe(200);
  await busy.end();
  const samples = await watched();
  report.note(`${CHANGES} changes, ${busy.times.length} answers under them right, ${samples} samples within`);
  expect((await device()).peak_bytes).toBeLessThanOrEqual(before.budget_bytes);

  let now = await p99During(WINDOW_MS);
  while (now > 1.5 * quiet && performance.now() - raised < 30_000) now = await p99During(WINDOW_MS);
  const backMs = performance.now() - raised;
  report.note(`p99 ${quiet.toFixed(0)} ms before, ${now.toFixed(0)} ms after`);
  const windows = { what: 'a window of the load', value: WINDOW_MS / 1000, times: 30 };
  report.withinTime('p99 back within 1.5 times after', backMs / 1000, 10, 's', windows);
  report.atMost('p99 after, of that before,', now / quiet, 3, '×');

  const metric = await subject.metrics();
  expect(metric('sida_engine_restarts_total')).toBe(0);
  expect(metric('sida_device_budget_bytes')).toBe(before.budget_bytes);
  await subject.recovered(report);
});
