// Clients that go away at every stage of a request: what they asked for is not run on, and nobody else notices.
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect } from 'vitest';
import { eventually } from '../support/eventually.js';
import { postText } from '../support/http-client.js';
import { randomFrom } from '../support/malformed-requests.js';
import { metricsOf, ServerProcess } from '../support/server-process.js';
import { fault } from './fault.js';
import { aTimer } from './quiet.js';
import { dropAfter, dropAtPiece, openStream } from './raw-stream.js';
import { percentile, Subject, TINY } from './subject.js';

const EACH = 200;
const AT_ONCE = 40;
/** Of each answer, were it run to its end. */
const TOKENS = 400;
/** Fewer wait than the engine takes at a time. */
const IN_ENGINE = 64;
const PATH = '/v1/completions';

let subject: Subject;
beforeAll(async () => {
  subject = await Subject.startWith({ sample: 'tiny' });
});
afterAll(() => subject.stop());

const random = randomFrom(18);
const answer = (prompt: number[]) => ({ prompt, max_tokens: TOKENS, stream: true });
const PIPELINED = postText(PATH, answer([5, 9]));
const LONG_PROMPT = Array.from({ length: 2_000 }, (_, i) => 2 + (i % 400));

function dropWhileUploading(): Promise<void> {
  const text = postText(PATH, answer(LONG_PROMPT), 'expect: 100-continue');
  const body = text.indexOf('\r\n\r\n') + 4;
  // The server asks for the body when it begins to read it.
  return openStream(subject.port, text.slice(0, body), (_, socket) => {
    socket.write(text.slice(body, body + 3_000), () => socket.destroy());
  });
}

/** Milliseconds to the first piece of a long prompt. */
async function timeOfPrefill(): Promise<number> {
  const started = performance.now();
  let ms = 0;
  await openStream(subject.port, postText(PATH, answer(LONG_PROMPT)), (_, socket) => {
    ms ||= performance.now() - started;
    socket.destroy();
  });
  return ms;
}

async function each(drop: () => Promise<void>): Promise<void> {
  let left = EACH;
  const client = async () => {
    while (left > 0) {
      left -= 1;
      await drop();
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, client));
}

/** Waits until nothing is left of them, in the queue or the engine; the queue's milliseconds. */
async function slotsFree(): Promise<number> {
  const started = performance.now();
  const metric = async (name: string) => (await subject.metrics())(name);
  await eventually(async () => (await metric('sida_queue_active_jobs')) === 0, 'no active job');
  expect(await metric('sida_queue_waiting_jobs')).toBe(0);
  const ms = performance.now() - started;
  // Both are of the engine's last sign of life, so they are asked for together.
  const unused = async () => {
    const value = await subject.metrics();
    return value('sida_active_sequences') === 0 && value('sida_kv_pages_free') === value('sida_kv_pages');
  };
  await eventually(unused, 'no active sequence and no page in use');
  return ms;
}

fault('clients that go away', async (report) => {
  const metric = async (name: string) => (await subject.metrics())(name);
  const cancelled = () => metric('sida_queue_jobs_total{outcome="cancelled"}');
  const prefillMs = await timeOfPrefill();
  const quiet = await subject.goodUntil(delay(2_000), 10);

  const stages: [stage: string, drop: () => Promise<void>][] = [
    ['upload', dropWhileUploading],
    ['prefill', () => dropAfter(subject.port, postText(PATH, answer(LONG_PROMPT)), random() * prefillMs)],
    ['the first byte', () => dropAtPiece(subject.port, postText(PATH, answer([5, 9])), 1)],
    [
      'decode',
      () => dropAtPiece(subject.port, postText(PATH, answer([5, 9])), 2 + Math.floor(random() * 40)),
    ],
    ['a pipelined request', () => dropAfter(subject.port, PIPELINED.repeat(3), random() * prefillMs)],
    [
      'decode, with a pipelined request',
      () =>
        openStream(subject.port, PIPELINED, (_, socket) => {
          socket.write(PIPELINED.repeat(2), () => socket.destroy());
        }),
    ],
  ];
  const latencies: number[] = [];
  let slowest = 0;
  for (const [stage, drop] of stages) {
    const [accepted, tokens] = [await metric('sida_queue_accepted_total'), await metric('sida_tokens_total')];
    const dropped = each(drop);
    const good = await subject.goodUntil(dropped, 10);
    latencies.push(...good);
    slowest = Math.max(slowest, await slotsFree());
    if (stage === 'upload') expect(await metric('sida_queue_accepted_total')).toBe(accepted + good.length);
    if (stage !== 'the first byte') continue;
    // Tokens are counted with the engine's next sign of life.
    await delay(1_500);
    const run = (await metric('sida_tokens_total')) - tokens;
    report.atMost('of what was left at the first byte was run', (100 * run) / (EACH * TOKENS), 50, '%');
  }

  // An engine that does not answer for a moment: what is sent meanwhile waits.
  const [engine] = subject.server.enginePids();
  const before = await cancelled();
  process.kill(engine!, 'SIGSTOP');
  const waiting = Array.from({ length: EACH + IN_ENGINE }, () =>
    connect({ host: '127.0.0.1', port: subject.port }),
  );
  for (const socket of waiting) socket.on('error', () => undefined).write(postText(PATH, answer([5, 9])));
  await eventually(async () => (await metric('sida_queue_waiting_jobs')) === EACH, 'jobs in the queue');
  for (const socket of waiting) socket.destroy();
  await eventually(async () => (await cancelled()) === before + waiting.length, 'their end');
  expect(await metric('sida_queue_waiting_jobs')).toBe(0);
  process.kill(engine!, 'SIGCONT');
  slowest = Math.max(slowest, await slotsFree());
  expect(await metric('sida_engine_restarts_total')).toBe(0);

  report.note(
    `${EACH} each at upload, in the queue, at prefill, at the first byte, while decoding, and with pipelined requests`,
  );
  report.note(`no slot and no KV page left in use, ${latencies.length} answers to others right`);
  report.withinTime('slots free within', slowest, 1_000, 'ms', await aTimer(3, 'ms'));
  report.note(
    `p99 of others ${percentile(latencies, 0.99).toFixed(0)} ms (${percentile(quiet, 0.99).toFixed(0)} alone)`,
  );
  expect(
    await metric(`sida_http_requests_total{route="${PATH}",method="POST",status="499"}`),
  ).toBeGreaterThan(4 * EACH);
  await subject.recovered(report);
});

fault('compute after the client went away', async (report) => {
  // Each step waits for experts, for longer than a message takes.
  const slow = ['--memory-budget', '1%', '--link-latency', '20ms', '--predictor', 'none'];
  const server = await ServerProcess.start(['--model', TINY, ...slow]);
  const { port } = new URL(server.url);
  const passes = async () => {
    await delay(2_500);
    return (await metricsOf(server))('sida_passes_total');
  };
  const steps: number[] = [];
  for (const pieces of [3, 5, 8]) {
    const before = await passes();
    await server.post(PATH, { ...answer([5, 9]), max_tokens: pieces });
    const whole = await passes();
    await dropAtPiece(Number(port), postText(PATH, answer([5, 9])), pieces);
    steps.push((await passes()) - whole - (whole - before));
  }
  report.note(`steps beyond those of a whole answer: ${steps.join(', ')}`);
  report.atMost('most steps after the client went away', Math.max(...steps), 1, '');

  const before = await passes();
  const [accepted, active] = ['sida_queue_accepted_total', 'sida_queue_active_jobs'];
  const acceptedBefore = (await metricsOf(server))(accepted);
  // The first one begins alone. The others would each run for hundreds of steps.
  await openStream(Number(port), postText(PATH, answer([5, 9])), (_, socket) => {
    socket.write(postText(PATH, answer([5, 9])).repeat(29), () => setTimeout(() => socket.destroy(), 200));
  });
  await dropAfter(Number(port), postText(PATH, answer([5, 9])).repeat(30), 200);
  const steps30 = (await passes()) - before;
  report.note(`${steps30} steps for two connections with 30 requests each`);
  expect((await metricsOf(server))(accepted)).toBe(acceptedBefore + 1);
  expect((await metricsOf(server))(active)).toBe(0);
  report.atMost('steps of the first of them', steps30, TOKENS / 4, '');
  const timer = await aTimer(2);
  const started = performance.now();
  expect(await server.stop()).toBe(0);
  report.withinTime('SIGTERM ended it after', (performance.now() - started) / 1_000, 1, 's', timer);
});
