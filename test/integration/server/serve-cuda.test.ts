// Exact mode on a GPU over HTTP: the same bits at any budget, with the other experts in host memory, and within the
// budget by the driver's own figure.
import { execFileSync } from 'node:child_process';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadAddon } from '../../../src/native/addon.js';
import { classifyAll, MINI, metricsOf, ServerProcess, sst2 } from '../../support/server-process.js';

const { devices, emulated, message } = loadAddon().cuda();
/** Set by `npm run test:cuda`, which fails on a machine without a GPU. */
const required = process.env.SIDA_REQUIRE_CUDA === '1';
// An emulated GPU takes seconds for the work that a GPU does in milliseconds.
const sentences = sst2().slice(0, emulated ? 8 : 256);

const smi = (...args: string[]) =>
  execFileSync('nvidia-smi', [...args, '--format=csv,noheader,nounits'], { encoding: 'utf8' })
    .trim()
    .split('\n');
const gpu = process.env.CUDA_VISIBLE_DEVICES?.split(',')[0]?.trim() || '0';
/** Bytes of GPU memory that all processes have, by nvidia-smi. */
const usedByAll = () => Number(smi(`--id=${gpu}`, '--query-gpu=memory.used')[0]) * 2 ** 20;
/** Those of one process; undefined where nvidia-smi does not list it, as in some containers. */
const usedBy = (pid: number) => {
  const rows = smi(`--id=${gpu}`, '--query-compute-apps=pid,used_memory').map((line) =>
    line.split(', ').map(Number),
  );
  const own = rows.find(([listed]) => listed === pid);
  return own && own[1]! * 2 ** 20;
};

const SERVER = ['--model', MINI, '--max-batch-tokens', '512'];

it.runIf(required)('there is a GPU', () => {
  expect(devices, message).toBeGreaterThan(0);
});

describe.runIf(devices > 0)('a server with --device cuda', () => {
  let server: ServerProcess;
  let resident: { label: string; scores: object }[];
  let others = 0;

  beforeAll(async () => {
    if (!emulated) others = usedByAll();
    server = await ServerProcess.start([
      ...SERVER,
      ...['--device', 'cuda', '--memory-budget', '100%', '--host-budget', '100%'],
    ]);
    resident = await classifyAll(server, sentences);
  });
  afterAll(async () => {
    expect(await server.stop()).toBe(0);
  });

  it('gives the same labels as the CPU', async () => {
    const cpu = await ServerProcess.start([...SERVER, '--memory-budget', '100%']);
    const answers = await classifyAll(cpu, sentences);
    expect(resident.map(({ label }) => label)).toEqual(answers.map(({ label }) => label));
    expect(await cpu.stop()).toBe(0);
  });

  it.each(['20%', '5%'])('gives the same bits with a budget of %s', async (device) => {
    const moved = async () => (await metricsOf(server))('sida_experts_moved_bytes_total');
    const before = await moved();
    const changed = await server.request('PUT', '/admin/budget', { device });
    expect(changed.status, JSON.stringify(changed.body)).toBe(200);
    expect(await classifyAll(server, sentences)).toEqual(resident);
    // A budget of 20% can hold all experts of a few sentences. The counters arrive about ten times a second.
    if (device === '5%') await server.until(async () => (await moved()) > before);
    const usage = (await server.get('/admin/budget')).body.device;
    expect(usage.used_bytes).toBeLessThanOrEqual(usage.budget_bytes);
    if (emulated) return;
    const [engine] = server.enginePids();
    // The context of this test's own process is part of `others`.
    const used = usedBy(engine!) ?? usedByAll() - others;
    console.log(`${device}: a budget of ${usage.budget_bytes} bytes, ${used} used by nvidia-smi`);
    expect(used).toBeGreaterThan(0);
    expect(used).toBeLessThanOrEqual(usage.budget_bytes);
  });
});
