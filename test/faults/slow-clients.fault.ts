// Clients that hold connections and send next to nothing.
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect } from 'vitest';
import { LIMITS } from '../../src/server/limits.js';
import { fault } from './fault.js';
import { aTimer } from './quiet.js';
import { percentile, Subject } from './subject.js';

let subject: Subject;
beforeAll(async () => {
  subject = await Subject.start();
});
afterAll(() => subject.stop());

/** Node looks for overdue connections once a second. */
const SLACK_MS = 2_500;
const BODY_HEAD =
  'POST /v1/classify HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{';

interface Held {
  socket: Socket;
  text: string;
  /** Milliseconds from the connection to its end. */
  lasted: Promise<number>;
}

async function hold(count: number, first: string, drip: string): Promise<Held[]> {
  const held: Held[] = [];
  let settled = 0;
  while (held.length < count) {
    const started = performance.now();
    const socket = connect({ host: '127.0.0.1', port: subject.port }, () => {
      settled += 1;
      if (first !== '') socket.write(first);
    });
    const timer = drip === '' ? undefined : setInterval(() => socket.writable && socket.write(drip), 1_000);
    const each: Held = {
      socket,
      text: '',
      lasted: new Promise((resolve) => {
        socket.on('close', () => {
          clearInterval(timer);
          resolve(performance.now() - started);
        });
      }),
    };
    socket
      .on('error', () => undefined)
      .on('data', (data) => {
        each.text += data.toString('latin1');
      });
    held.push(each);
    // More at once than the listen backlog holds would wait for the kernel's retries.
    if (held.length % 100 === 0) {
      for (let tries = 0; tries < 500 && settled < held.length; tries += 1) await delay(10);
    }
  }
  return held;
}

const longest = async (held: Held[]) => Math.max(...(await Promise.all(held.map(({ lasted }) => lasted))));
const answered = (held: Held[]) => held.filter(({ text }) => text.startsWith('HTTP/1.1 408 ')).length;

fault('slow headers, slow bodies, idle sockets', async (report) => {
  const alone = percentile(await subject.goodUntil(delay(3_000)), 0.99);
  const quiet = { what: 'the p99 without them', value: alone, times: 25 };
  const timer = await aTimer((1.5 * LIMITS.headersTimeoutMs) / 1000, 'ms');
  const headers = await hold(500, 'GET /health/live HTTP/1.1\r\nhost: localhost\r\n', 'x-a: b\r\n');
  const bodies = await hold(500, BODY_HEAD, ' ');
  const both = Promise.all([longest(headers), longest(bodies)]);
  const latencies = await subject.goodUntil(both);
  const [headerMs, bodyMs] = await both;
  const seconds = (ms: number) => (ms / 1000).toFixed(1);
  report.note(
    `1,000 slow clients: headers ended within ${seconds(headerMs)} s, bodies within ${seconds(bodyMs)} s`,
  );
  report.note('1,000 with 408');
  expect([answered(headers), answered(bodies)]).toEqual([headers.length, bodies.length]);
  report.withinTime('slow headers ended within', headerMs, LIMITS.headersTimeoutMs + SLACK_MS, 'ms', timer);
  const slower = { ...timer, times: (1.5 * LIMITS.requestTimeoutMs) / 1000 };
  report.withinTime('slow bodies ended within', bodyMs, LIMITS.requestTimeoutMs + SLACK_MS, 'ms', slower);
  const p99 = (all: number[]) => percentile(all, 0.99);
  report.withinTime(`p99 of ${latencies.length} good requests`, p99(latencies), 1_000, 'ms', quiet);

  const idle = await hold(3_500, '', '');
  let most = 0;
  const watch = setInterval(() => {
    most = Math.max(most, subject.descriptors());
  }, 20);
  const closing = longest(idle);
  const idleLatencies = await subject.goodUntil(closing);
  clearInterval(watch);
  report.note(`3,500 idle sockets: never more than ${most} connections`);
  // A new connection is accepted before another is closed for it.
  expect(most).toBeLessThanOrEqual(LIMITS.connections + 1);
  report.withinTime(
    'idle sockets ended within',
    await closing,
    LIMITS.headersTimeoutMs + SLACK_MS,
    'ms',
    timer,
  );
  report.withinTime(`p99 of ${idleLatencies.length} good requests`, p99(idleLatencies), 1_000, 'ms', quiet);
  const metric = await subject.metrics();
  expect(metric('sida_http_connection_errors_total{reason="too_many_connections"}')).toBeGreaterThan(1_000);
  expect(metric('sida_http_connection_errors_total{reason="request_timeout"}')).toBeGreaterThan(900);
  await subject.recovered(report);
});
