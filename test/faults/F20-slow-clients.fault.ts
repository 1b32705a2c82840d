// Clients that hold connections and send next to nothing.
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect } from 'vitest';
import { LIMITS } from '../../src/server/limits.js';
import { fault } from './fault.js';
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

fault('F20', 'slow headers, slow bodies, idle sockets', async (report) => {
  const headers = await hold(500, 'GET /health/live HTTP/1.1\r\nhost: localhost\r\n', 'x-a: b\r\n');
  const bodies = await hold(500, BODY_HEAD, ' ');
  let ended = false;
  const both = Promise.all([longest(headers), longest(bodies)]).finally(() => {
    ended = true;
  });
  const latencies: number[] = [];
  while (!ended) {
    latencies.push(await subject.oneGood());
    await delay(50);
  }
  const [headerMs, bodyMs] = await both;
  expect(headerMs).toBeLessThan(LIMITS.headersTimeoutMs + SLACK_MS);
  expect(bodyMs).toBeLessThan(LIMITS.requestTimeoutMs + SLACK_MS);
  expect([answered(headers), answered(bodies)]).toEqual([500, 500]);
  const p99 = percentile(latencies, 0.99);
  report.note(
    `1,000 slow clients: all 408, headers within ${(headerMs / 1000).toFixed(1)} s, bodies within ${(bodyMs / 1000).toFixed(1)} s`,
  );
  report.note(`${latencies.length} good requests meanwhile: p99 ${p99.toFixed(0)} ms`);
  expect(p99).toBeLessThan(1_000);

  const idle = await hold(2_000, '', '');
  let [most, closed] = [0, false];
  const idleLatencies: number[] = [];
  const closing = longest(idle).finally(() => {
    closed = true;
  });
  while (!closed) {
    idleLatencies.push(await subject.oneGood());
    most = Math.max(most, subject.descriptors());
    await delay(50);
  }
  const idleMs = await closing;
  const idleP99 = percentile(idleLatencies, 0.99);
  report.note(
    `2,000 idle sockets: never more than ${most} connections, all closed within ${(idleMs / 1000).toFixed(1)} s`,
  );
  report.note(`${idleLatencies.length} good requests meanwhile: p99 ${idleP99.toFixed(0)} ms`);
  expect(most).toBeLessThanOrEqual(LIMITS.connections);
  expect(idleP99).toBeLessThan(1_000);
  expect((await subject.metrics())('sida_http_connection_errors_total{reason="silent"}')).toBeGreaterThan(
    1_000,
  );
  await subject.recovered(report);
});
