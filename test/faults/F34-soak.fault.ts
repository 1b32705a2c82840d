// Ten minutes (SIDA_SOAK_MINUTES) of good requests, bad ones and cancelled jobs while the budget moves, in turn without
// and beside attacks (SIDA_SOAK_ATTACKERS=0: none). Nothing grows, and good clients hardly notice.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, vi } from 'vitest';
import { hashKey, newApiKey } from '../../src/access/api-key.js';
import { keyLine } from '../../src/access/key-file.js';
import { bearer } from '../support/access-cases.js';
import { copyModel } from '../support/changed-model.js';
import { MALFORMED_BODIES } from '../support/malformed.js';
import { randomFrom } from '../support/malformed-requests.js';
import { RedisServer } from '../support/redis.js';
import { Attackers } from './attackers.js';
import { FAST } from './cluster.js';
import { type FaultReport, fault } from './fault.js';
import { FileChanges } from './file-changes.js';
import { goldenQuestions } from './golden.js';
import { Heartbeat } from './heartbeat.js';
import { aTimer } from './quiet.js';
import { slopeOf } from './slope.js';
import { footprint, percentile, Subject } from './subject.js';
import { Traffic } from './traffic.js';

const MINUTES = Number(process.env.SIDA_SOAK_MINUTES ?? 10);
const SEED = Number(process.env.SIDA_SOAK_SEED ?? Date.now() % 1_000_000);
/** Until heaps and caches have the size that the load gives them. */
const WARM_SHARE = 0.3;
/** Attacks come in so many waves, so that what else changes on the machine meets quiet and attacked clients alike. */
const WAVES = 6;
/** Of each wave, at its beginning: what the good clients' p99 is compared with. */
const QUIET_SHARE = 0.25;
/** Until the server has done what the attackers left behind; not counted as quiet. */
const SETTLE_MS = 3_000;
/** Connections of attackers that ping or send bodies slowly; each dear request has one attacker. */
const HELD = Number(process.env.SIDA_SOAK_ATTACKERS ?? 200);
const SAMPLE_MS = 1_000;
vi.setConfig({ testTimeout: (MINUTES + 5) * 60_000 });

const [good, bad] = [newApiKey(), newApiKey()];

/** Not those so large that the connection may end before they are sent. */
const BAD = MALFORMED_BODIES.filter(([, body]) => body.length < 64 * 1024);

const random = randomFrom(SEED);
let going = true;

/** Requests that must be refused, one in ten of all. */
async function sendBad(subject: Subject, traffic: Traffic): Promise<number> {
  let sent = 0;
  while (going) {
    const due = sent < traffic.accepted / 9;
    if (!due) {
      await delay(20);
      continue;
    }
    const [what, body, status] = BAD[sent % BAD.length]!;
    const answer = await subject.ask('/v1/classify', { method: 'POST', body });
    expect(answer.status, what).toBe(status);
    sent += 1;
  }
  return sent;
}

/** Between the smallest budget that works and a full one; never more in use than it allows. */
async function moveBudget(subject: Subject): Promise<number> {
  let moved = 0;
  const budget = async () => (await subject.ask('/admin/budget')).json.device;
  const { smallest_bytes: smallest, budget_bytes: largest } = await budget();
  while (going) {
    await delay(500 + 2_500 * random());
    const device = String(Math.round(smallest + random() * (largest - smallest)));
    const answer = await subject.ask('/admin/budget', { method: 'PUT', body: { device } });
    expect(answer.status, answer.text).toBe(200);
    const { used_bytes, budget_bytes } = await budget();
    expect(used_bytes).toBeLessThanOrEqual(budget_bytes);
    moved += 1;
  }
  await subject.ask('/admin/budget', { method: 'PUT', body: { device: String(largest) } });
  return moved;
}

/** Garbage comes and goes; what is held shows where there is least of it. */
function lowest(values: number[], from: number, to: number): number {
  return Math.min(...values.slice(Math.floor(from * values.length), Math.ceil(to * values.length)));
}

async function soak(
  report: FaultReport,
  subject: Subject,
  traffic: Traffic,
  attackers: Attackers,
  files: FileChanges,
): Promise<void> {
  const { port, server } = subject;
  const [engine] = server.enginePids();
  const about = async () => (await subject.ask('/v1/models')).json.data[0];
  const served = await about();
  const heartbeat = new Heartbeat(port);
  const others = Promise.all([sendBad(subject, traffic), moveBudget(subject)]);
  // Its failure is told below, even if another comes first.
  others.catch(() => undefined);
  const samples = { hours: [] as number[], server: [] as number[], engine: [] as number[] };
  const descriptors: number[] = [];
  const [quiet, attacked]: [number[], number[]] = [[], []];
  let [attacks, from] = [false, 0];
  const began = performance.now();
  const switchTo = async (attack: boolean) => {
    (attacks ? attacked : quiet).push(...traffic.latencies.slice(from));
    attacks = attack;
    if (attack) {
      await attackers.begin();
      files.begin();
    } else {
      await Promise.all([attackers.stop(), files.end()]);
      await delay(SETTLE_MS);
    }
    from = traffic.latencies.length;
  };
  for (let next = began; next < began + MINUTES * 60_000; next += SAMPLE_MS) {
    await delay(Math.max(0, next - performance.now()));
    expect(server.enginePids(), `the engine after ${Math.round((next - began) / 1000)} s`).toEqual([engine]);
    const wave = (WAVES * (performance.now() - began)) / (MINUTES * 60_000);
    const attack = HELD > 0 && wave % 1 >= QUIET_SHARE;
    if (attack !== attacks) await switchTo(attack);
    if (performance.now() < began + WARM_SHARE * MINUTES * 60_000) continue;
    samples.hours.push((performance.now() - began) / 3_600_000);
    samples.server.push(footprint(server.child.pid!).rssBytes / 1024 ** 2);
    samples.engine.push(footprint(engine!).rssBytes / 1024 ** 2);
    descriptors.push(subject.descriptors());
  }
  going = false;
  const [refused, moves] = await others;
  if (attacks) await switchTo(false);
  await traffic.stop();
  await heartbeat.stop();
  report.note(`${refused} bad requests refused`);
  report.note(`budget moved ${moves} times`);
  traffic.tell(report);
  const of = await subject.metrics();
  expect(of('sida_device_peak_bytes')).toBeGreaterThan(0);
  expect(of('sida_engine_restarts_total')).toBe(0);
  for (const who of ['server', 'engine'] as const) {
    const { slope, least } = slopeOf(samples.hours, samples[who]);
    const thirds = [0, 1, 2].map((third) => lowest(samples[who], third / 3, (third + 1) / 3).toFixed(0));
    report.note(`memory of the ${who} ${slope.toFixed(0)} MiB/h, surely at least ${least.toFixed(0)}`);
    report.note(`lowest of its thirds ${thirds.join(', ')} MiB`);
    // In less than an hour the end of warming up shows as growth: what counts there is the memory itself.
    const hours = samples.hours.at(-1)! - samples.hours[0]!;
    if (hours > 0.9) report.atMost(`growth of the ${who} that is no chance`, Math.max(0, least), 1, 'MiB/h');
    else report.atMost(`growth of the ${who} that is no chance`, Math.max(0, least * hours), 8, 'MiB');
  }
  const { least } = slopeOf(samples.hours, descriptors);
  const time = samples.hours.at(-1)! - samples.hours[0]!;
  report.note(`at most ${Math.max(...descriptors)} descriptors more than when idle`);
  report.atMost('descriptors grown that are no chance', Math.max(0, least * time), 16, '');
  report.withinTime('longest without a sign of life', heartbeat.longestMs / 1000, 2, 's', await aTimer(4));
  if (HELD === 0) return;
  const p99 = (latencies: number[]) => percentile(latencies, 0.99);
  const [alone, beside] = [p99(quiet), p99(attacked)];
  report.note(
    `p99 of ${quiet.length} good requests ${alone.toFixed(0)} ms without attacks, of ${attacked.length} ${beside.toFixed(0)} ms beside them`,
  );
  report.note(
    `${attackers.sent} attacks: ${[...attackers.answers].map(([as, count]) => `${count} × ${as}`).join(', ')}`,
  );
  report.note(
    `${HELD} connections that ping or send slowly, of which ${attackers.closed} were closed and came again`,
  );
  report.note(
    `a task edited ${files.edited} times; ${files.killed} conversions killed, ${files.converted} made after them`,
  );
  expect(attackers.failures).toEqual([]);
  expect(await about()).toEqual(served);
  expect(files.converted).toBeGreaterThan(0);
  report.atMost('p99 of good requests, of that without attacks,', beside / alone, 2, '×');
}

fault('F34', 'soak: good and bad requests, cancels, attacks, a moving budget', async (report) => {
  report.note(`${MINUTES} minutes`);
  report.note(`seed ${SEED}`);
  const golden = await goldenQuestions();
  const redis = await RedisServer.start();
  const folder = mkdtempSync(join(tmpdir(), 'sida-soak-'));
  const keys = join(folder, 'keys');
  const lines = [
    keyLine({ name: 'good', scopes: ['infer', 'metrics', 'admin'], hash: hashKey(good) }),
    keyLine({ name: 'attacker', scopes: ['infer'], hash: hashKey(bad) }),
  ];
  writeFileSync(keys, lines.join('\n'), { mode: 0o600 });
  const flags = ['--redis', redis.url, '--threads', '1', '--api-keys', keys, ...FAST];
  const model = copyModel(folder, { predictor: true });
  const subject = await Subject.startWith({ model, headers: bearer(good) }, ...flags);
  const files = new FileChanges(model, folder);
  // One in ten of all requests is cancelled: two in nine of the jobs, which are half of the good ones.
  const headers = bearer(good);
  const half = Math.floor(HELD / 2);
  const held = { pingers: half, slowBodies: HELD - half };
  const attackers = new Attackers({ port: subject.port, headers: bearer(bad), pauseMs: 2_000, ...held });
  const options = { port: subject.port, headers, golden, seed: SEED, cancels: 0.22, pauseMs: 100 };
  try {
    await Traffic.around(options, (traffic) => soak(report, subject, traffic, attackers, files));
    await subject.recovered(report);
  } finally {
    going = false;
    await attackers.stop();
    await files.end();
    await subject.stop();
    await redis.end();
    rmSync(folder, { recursive: true });
  }
});
