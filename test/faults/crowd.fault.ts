// Crowds of connections that ask for much and leave, or hold more connections than they may.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { Agent } from 'node:http';
import { setPriority } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect } from 'vitest';
import { LOW_PRIORITY } from './attackers.js';
import { type FaultReport, fault } from './fault.js';
import { Heartbeat } from './heartbeat.js';
import { aTimer } from './quiet.js';
import { percentile, Subject } from './subject.js';

/** Crowds whose members come back again and again, and one that comes once. */
const CROWDS = [40, 100];
const LARGE_CROWD = 2_500;
/** What one address may hold where there is an option for it, and the crowd that comes from it. */
const CAP = 256;
const CROWD_OF_ONE = 300;
const GOOD = 200;
/** Good connections and those of the looks at the metrics, beside the crowd's. */
const OWN = 8;
/** A good request without an answer after this long has failed. */
const GOOD_MS = 10_000;
/** How much slower the slowest good requests may be beside a crowd of one address that holds what it may. */
const MOST_SLOWER = 10;
/** A probe asks this often, so that answers are so far apart without a crowd. */
const PROBE_EVERY_MS = 200;

let subject: Subject;
let capped: Subject;
beforeAll(async () => {
  subject = await Subject.start();
  capped = await Subject.start('--connections-per-address', String(CAP));
});
afterAll(() => Promise.all([subject?.stop(), capped?.stop()]));

interface Member {
  /** Sent when the connection is open. */
  first: string;
  /** Sent again and again. */
  drip?: string;
  everyMs?: number;
  /** It leaves after this time. */
  leaveMs?: number;
}

const get = (path: string) => `GET ${path} HTTP/1.1\r\nhost: localhost\r\n\r\n`;
const post = (header: string) =>
  `POST /v1/classify HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n${header}\r\n\r\n`;
const PIPELINE = get('/health/live').repeat(1_400);
const CHUNKS = post('transfer-encoding: chunked') + '1\r\n \r\n'.repeat(2_000);

const LEAVING: [what: string, member: Member][] = [
  ['that pipeline 1,400 requests and leave', { first: PIPELINE, leaveMs: 300 }],
  ['that send chunks of a byte and leave', { first: CHUNKS, leaveMs: 300 }],
  ['that ask for something and leave at once', { first: get('/health/live'), leaveMs: 0 }],
];
const HOLDING: [what: string, member: Member][] = [
  [
    'that ping on kept connections',
    { first: get('/health/live'), drip: get('/health/live'), everyMs: 2_000 },
  ],
  ['whose bodies arrive slowly', { first: post('content-length: 1000'), drip: ' ', everyMs: 500 }],
  ['whose headers arrive slowly', { first: 'GET / HTTP/1.1\r\n', drip: 'x-a: b\r\n', everyMs: 500 }],
];

interface Crowd extends Member {
  size: number;
  /** Members take them in turn. */
  addresses: string[];
  /** Whether members connect again whenever they are closed. */
  again: boolean;
}

/** The functions tell how often the members have connected, and end the crowd. */
async function gather({ port }: Subject, crowd: Crowd) {
  const child = fork(new URL('./crowd-process.mjs', import.meta.url), { execArgv: [] });
  setPriority(child.pid!, LOW_PRIORITY);
  child.send({ port, ...crowd });
  await once(child, 'message');
  return {
    async connections(): Promise<number> {
      child.send('count');
      const [count] = (await once(child, 'message')) as [number];
      return count;
    },
    end: () => child.kill('SIGKILL'),
  };
}

/** Milliseconds of each good request, and how many failed. Half of them come over connections that are kept. */
async function good(of: Subject): Promise<{ latencies: number[]; failed: number }> {
  const agent = new Agent({ keepAlive: true, maxSockets: 2 });
  const latencies: number[] = [];
  let failed = 0;
  for (let i = 0; i < GOOD; i += 1) {
    const late = delay(GOOD_MS, undefined, { ref: false }).then(() => Promise.reject(new Error('late')));
    const asked = i % 2 === 0 ? of.oneGood() : of.oneGood(agent);
    await Promise.race([asked, late]).then(
      (ms) => latencies.push(ms),
      () => {
        failed += 1;
      },
    );
    late.catch(() => undefined);
    await delay(10);
  }
  agent.destroy();
  return { latencies, failed };
}

/** Connections that were closed so far, for one of the reasons. */
async function closed(of: Subject, ...reasons: string[]): Promise<number> {
  const { text } = await of.ask('/metrics');
  const pattern = `^sida_http_connection_errors_total\\{reason="(?:${reasons.join('|')})"\\} (\\d+)$`;
  return [...text.matchAll(new RegExp(pattern, 'gm'))].reduce((sum, [, count]) => sum + Number(count), 0);
}

for (const [what, member] of LEAVING) {
  for (const size of [...CROWDS, LARGE_CROWD]) {
    const again = size < LARGE_CROWD;
    fault(`${size} clients ${what}${again ? ', again and again' : ''}`, async (report) => {
      const before = await closed(subject, 'pipelined', 'small_chunks');
      const timer = await aTimer(5, 'ms');
      const probes = new Heartbeat(subject.port);
      const gathered = await gather(subject, { ...member, size, addresses: ['127.0.0.1'], again });
      const { latencies, failed } = await good(subject);
      const connections = await gathered.connections();
      gathered.end();
      await probes.stop();
      report.note(`${connections} connections of the crowd`);
      report.note(`${latencies.length} of ${GOOD} good requests answered`);
      expect(failed).toBe(0);
      report.withinTime('probes answered within', probes.longestMs, 1_000 + PROBE_EVERY_MS, 'ms', timer);
      if (member.first.length > 1_000) {
        // A client that leaves before its request was read is closed by nobody.
        const refused = (await closed(subject, 'pipelined', 'small_chunks')) - before;
        report.note(`${refused} of them closed`);
        expect(refused).toBeGreaterThan(connections / 2);
      }
      await subject.recovered(report);
    });
  }
}

async function besides(report: FaultReport, crowd: Crowd): Promise<void> {
  const quiet = percentile((await good(capped)).latencies, 0.99);
  const before = await closed(capped, 'too_many_of_address');
  const gathered = await gather(capped, crowd);
  let most = 0;
  const watch = setInterval(() => {
    most = Math.max(most, capped.descriptors());
  }, 20);
  const { latencies, failed } = await good(capped);
  clearInterval(watch);
  const beside = percentile(latencies, 0.99);
  const connections = await gathered.connections();
  gathered.end();
  const shed = (await closed(capped, 'too_many_of_address')) - before;
  report.note(`${latencies.length} of ${GOOD} good requests answered`);
  report.note(`p99 ${quiet.toFixed(0)} ms alone, ${beside.toFixed(0)} ms beside them`);
  report.note(`${connections} connections of the crowd, never more than ${most} open`);
  report.note(`${shed} closed to make room`);
  expect(failed).toBeLessThanOrEqual(GOOD / 100);
  expect(shed).toBeGreaterThanOrEqual(CROWD_OF_ONE - CAP - OWN);
  expect(most).toBeGreaterThan(CAP / 2);
  expect(most).toBeLessThanOrEqual(CAP + OWN);
  expect(beside / quiet).toBeLessThan(MOST_SLOWER);
  await capped.recovered(report);
}

for (const [what, member] of HOLDING) {
  fault(`${CROWD_OF_ONE} clients of one address that may have ${CAP} ${what}`, (report) =>
    besides(report, { ...member, size: CROWD_OF_ONE, addresses: ['127.0.0.2'], again: true }),
  );
}
