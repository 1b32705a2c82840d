// Guarantees while the engine dies, the server drains, or the budget changes under load.
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Answer, classifyAll, MINI, ServerProcess, sst2 } from '../../support/server-process.js';

const sentences = sst2().slice(0, 320);

describe('kill -9 of the engine process', () => {
  let server: ServerProcess;
  beforeAll(async () => {
    server = await ServerProcess.start(['--model', MINI, '--memory-budget', '10%']);
  });
  afterAll(() => server.stop());

  it('repeats the jobs in flight with correct answers, and is ready again within 5 s', async () => {
    const golden = await classifyAll(server, sentences);
    const [pid] = server.enginePids();
    expect(pid).toBeDefined();
    const running = classifyAll(server, sentences);
    await delay(150);
    process.kill(pid!, 'SIGKILL');
    expect((await server.get('/health/live')).status).toBe(200);
    expect(await running).toEqual(golden);
    expect(await server.ready(5_000)).toBeLessThan(5_000);
    expect(server.enginePids()[0]).not.toBe(pid);
    expect((await server.get('/metrics')).body).toMatch(/sida_engine_restarts_total(\{[^}]*\})? 1/);
    expect(await classifyAll(server, sentences)).toEqual(golden);
  });

  it('keeps the API up during three crashes in a row', async () => {
    for (let i = 0; i < 3; i++) {
      const [pid] = server.enginePids();
      process.kill(pid!, 'SIGKILL');
      expect((await server.get('/health/live')).status).toBe(200);
      await server.until(() => server.enginePids().some((other) => other !== pid));
      await server.ready(10_000);
    }
  });
});

describe('a frozen engine process', () => {
  it('is detected and replaced, and its request is answered', async () => {
    const server = await ServerProcess.start(['--model', MINI, '--memory-budget', '50%']);
    const ask = () =>
      server.post('/v1/classify', { task: 'sst2', input: sentences.slice(0, 4).map((s) => s.text) });
    const golden = await ask();
    const [pid] = server.enginePids();
    process.kill(pid!, 'SIGSTOP');
    const held = await ask();
    expect(held.status, JSON.stringify(held.body)).toBe(200);
    expect(held.body.data).toEqual(golden.body.data);
    expect(server.enginePids()).not.toContain(pid);
    expect(await server.stop()).toBe(0);
  });
});

describe('SIGTERM under load', () => {
  it('answers accepted requests, refuses the rest and exits with 0', async () => {
    const server = await ServerProcess.start(['--model', MINI, '--memory-budget', '10%']);
    const send = (i: number): Promise<Answer | string> => {
      const input = sentences.slice((i * 8) % 300, ((i * 8) % 300) + 8).map((s) => s.text);
      return server.post('/v1/classify', { task: 'sst2', input }).catch(() => 'refused');
    };
    const taken = Array.from({ length: 30 }, (_, i) => send(i));
    await server.until(async () => /sida_queue_accepted_total 30/.test((await server.get('/metrics')).body));
    server.child.kill('SIGTERM');
    const late = Array.from({ length: 10 }, (_, i) => send(i));
    for (const answer of await Promise.all(taken)) expect(answer).toMatchObject({ status: 200 });
    for (const answer of await Promise.all(late)) {
      // A request that arrived before the signal is answered as well.
      expect([200, 503, 'refused']).toContain(typeof answer === 'string' ? answer : answer.status);
    }
    expect(await server.exit).toBe(0);
  });

  it('exits at once and not with 0 on a second signal', async () => {
    const server = await ServerProcess.start(['--model', MINI, '--memory-budget', '1%']);
    const busy = Array.from({ length: 30 }, () =>
      server
        .post('/v1/classify', { task: 'sst2', input: sentences.slice(0, 32).map((s) => s.text) })
        .catch(() => undefined),
    );
    await delay(50);
    server.child.kill('SIGTERM');
    await delay(50);
    const signalled = performance.now();
    server.child.kill('SIGTERM');
    const code = await server.exit;
    expect(performance.now() - signalled).toBeLessThan(1_500);
    expect(code).not.toBe(0);
    await Promise.all(busy);
  });
});

describe('the budget under load', () => {
  let server: ServerProcess;
  beforeAll(async () => {
    server = await ServerProcess.start(['--model', MINI, '--memory-budget', '100%']);
  });
  afterAll(() => server.stop());

  it('is refused below the smallest workable budget, with the bytes needed', async () => {
    const { body } = await server.get('/admin/budget');
    const answer = await server.request('PUT', '/admin/budget', { device: '1MiB' });
    expect(answer.status).toBe(422);
    expect(answer.body.error.code).toBe('budget_too_small');
    expect(answer.body.error.details.needed_bytes).toBe(body.device.smallest_bytes);
    expect(answer.body.error.message).toMatch(
      /^A budget of 1\.00 MiB is too small, the smallest that works is [\d.]+ MiB: /,
    );
    expect((await server.get('/admin/budget')).body.device.budget_bytes).toBe(body.device.budget_bytes);
  });

  it('holds at every sample during 50 random changes, and every answer is correct', async () => {
    const golden = await classifyAll(server, sentences);
    const { smallest_bytes: smallest, budget_bytes: largest } = (await server.get('/admin/budget')).body
      .device;
    let seed = 7;
    const random = () => {
      seed = (seed * 1103515245 + 12345) % 2 ** 31;
      return seed / 2 ** 31;
    };
    let changing = true;
    const load = (async () => {
      while (changing) expect(await classifyAll(server, sentences)).toEqual(golden);
    })();
    for (let i = 0; i < 50; i++) {
      const device = Math.round(smallest + random() * (largest - smallest));
      const answer = await server.request('PUT', '/admin/budget', { device: String(device) });
      expect(answer.status).toBe(200);
      expect(answer.body.device.budget_bytes).toBe(device);
      expect(answer.body.device.used_bytes).toBeLessThanOrEqual(device);
      const sample = (await server.get('/admin/budget')).body.device;
      expect(sample.used_bytes).toBeLessThanOrEqual(sample.budget_bytes);
    }
    changing = false;
    await load;
  }, 180_000);
});
