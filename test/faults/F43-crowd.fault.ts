// More connections than the server takes, which ask for next to nothing and never stop.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { Agent } from 'node:http';
import { setPriority } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect } from 'vitest';
import { LIMITS } from '../../src/server/limits.js';
import { LOW_PRIORITY } from './attackers.js';
import { type FaultReport, fault } from './fault.js';
import { percentile, Subject } from './subject.js';

/** Above `LIMITS.connections`, so that room must be made. */
const CROWD = 2_500;
/** What one address may hold where there is an option for it, and the crowd that comes from it. */
const CAP = 256;
const CROWD_OF_ONE = 600;
const GOOD = 200;
/** Good connections and those of the looks at the metrics, beside the crowd's. */
const OWN = 8;

let subject: Subject;
let capped: Subject;
beforeAll(async () => {
  subject = await Subject.start();
  capped = await Subject.start('--connections-per-address', String(CAP));
});
afterAll(() => Promise.all([subject?.stop(), capped?.stop()]));

/** A good request without an answer after this long has failed. */
const GOOD_MS = 10_000;
/** How much slower the slowest good requests may be beside the crowd. */
const MOST_SLOWER = 10;

interface Member {
  /** Sent when the connection is open. */
  first: string;
  /** Sent again and again. */
  drip: string;
  everyMs: number;
}

const get = (path: string) => `GET ${path} HTTP/1.1\r\nhost: localhost\r\n\r\n`;
const pings = (path: string): Member => ({ first: get(path), drip: get(path), everyMs: 500 });
const SLOW_BODY =
  'POST /v1/classify HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n{';
const KINDS: [what: string, member: Member][] = [
  ['that ping on kept connections', pings('/health/live')],
  ['that ask for what there is not', pings('/nothing')],
  ['that ask for dear answers', pings('/metrics')],
  ['whose bodies arrive slowly', { first: SLOW_BODY, drip: ' '.repeat(100), everyMs: 500 }],
  ['whose headers arrive slowly', { first: 'GET / HTTP/1.1\r\n', drip: 'x-a: b\r\n', everyMs: 500 }],
];

interface Crowd extends Member {
  size: number;
  /** Members take them in turn. */
  addresses: string[];
}

/** A crowd that connects again whenever it is closed. The functions tell how often, and end it. */
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

/** Connections that were closed so far to make room, or for want of room. */
async function shed(of: Subject): Promise<number> {
  const { text } = await of.ask('/metrics');
  const reasons = 'silent|idle|slow|too_many_connections|too_many_of_address';
  const counts = text.matchAll(
    new RegExp(`^sida_http_connection_errors_total\\{reason="(?:${reasons})"\\} (\\d+)$`, 'gm'),
  );
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
}

async function besides(report: FaultReport, of: Subject, crowd: Crowd, mostOpen: number): Promise<void> {
  const quiet = percentile((await good(of)).latencies, 0.99);
  const before = await shed(of);
  const gathered = await gather(of, crowd);
  try {
    let most = 0;
    const watch = setInterval(() => {
      most = Math.max(most, of.descriptors());
    }, 20);
    const { latencies, failed } = await good(of);
    clearInterval(watch);
    const beside = percentile(latencies, 0.99);
    const connections = await gathered.connections();
    gathered.end();
    const closed = (await shed(of)) - before;
    report.note(`${latencies.length} of ${GOOD} good requests answered`);
    report.note(`p99 ${quiet.toFixed(0)} ms alone, ${beside.toFixed(0)} ms beside them`);
    report.note(`${connections} connections of the crowd, never more than ${most} open`);
    report.note(`${closed} closed to make room`);
    expect(failed).toBeLessThanOrEqual(GOOD / 100);
    // Whoever is more than the limit has made another one go.
    expect(closed).toBeGreaterThanOrEqual(crowd.size - mostOpen);
    expect(most).toBeGreaterThan(mostOpen / 2);
    expect(most).toBeLessThanOrEqual(mostOpen);
    expect(beside / quiet).toBeLessThan(MOST_SLOWER);
  } finally {
    gathered.end();
  }
  await of.recovered(report);
}

for (const [what, member] of KINDS) {
  for (const [from, addresses] of [
    ['one address', ['127.0.0.1']],
    ['as many addresses', Array.from({ length: CROWD }, (_, i) => `127.0.${1 + (i >> 8)}.${i & 255}`)],
  ] as const) {
    fault('F43', `${CROWD} clients of ${from} ${what}`, (report) =>
      besides(report, subject, { ...member, size: CROWD, addresses: [...addresses] }, LIMITS.connections),
    );
  }
  fault('F43', `${CROWD_OF_ONE} clients of one address that may have ${CAP} ${what}`, (report) => {
    const crowd = { ...member, size: CROWD_OF_ONE, addresses: ['127.0.0.2'] };
    return besides(report, capped, crowd, CAP + OWN);
  });
}
