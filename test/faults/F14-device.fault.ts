// The GPU fails for good in the middle of a pass: a kernel reads where it must not. The GPU is emulated (docs/cuda.md).
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import { buildEmulatedAddon } from '../support/emulated-addon.js';
import { eventually } from '../support/eventually.js';
import { metricsOf, ServerProcess } from '../support/server-process.js';
import { fault } from './fault.js';
import { essence } from './golden.js';
import { aStart } from './quiet.js';
import { TINY } from './subject.js';

const FAULTS = 3;
const QUESTIONS = Array.from({ length: 8 }, (_, i) => ({
  prompt: [3 * i + 2, 5 * i + 7],
  max_tokens: 4,
  logprobs: 2,
  return_token_ids: true,
}));

interface Outcome {
  status: number;
  right: boolean;
  began: number;
  ended: number;
}

/** Asks one question after the other until it is stopped. */
class Client {
  readonly outcomes: Outcome[] = [];
  #stopped = false;
  readonly #done: Promise<void>;

  constructor(server: ServerProcess, right: string[], first: number) {
    this.#done = (async () => {
      for (let i = first; !this.#stopped; i = (i + 1) % QUESTIONS.length) {
        const began = performance.now();
        const { status, body } = await server.post('/v1/completions', QUESTIONS[i]);
        const ended = performance.now();
        this.outcomes.push({ status, right: status !== 200 || essence(body) === right[i], began, ended });
      }
    })();
  }

  stop(): Promise<void> {
    this.#stopped = true;
    return this.#done;
  }
}

async function failDevice(server: ServerProcess, file: string): Promise<{ failed: number; back: number }> {
  const [before] = server.enginePids();
  writeFileSync(file, '');
  await eventually(() => !existsSync(file), 'a kernel');
  const failed = performance.now();
  await eventually(() => server.enginePids().some((pid) => pid !== before), 'another engine');
  const back = performance.now();
  await server.ready(60_000);
  return { failed, back };
}

fault('F14', 'a sticky error of the GPU in the middle of a pass', async (report) => {
  const directory = mkdtempSync(join(tmpdir(), 'sida-device-'));
  const file = join(directory, 'fault');
  const mine = { SIDA_ADDON: buildEmulatedAddon(), SIDA_EMULATION_FAULT_FILE: file };
  Object.assign(process.env, mine);
  try {
    const server = await ServerProcess.start(['--model', TINY, '--device', 'cuda', '--memory-budget', '20%']);
    const right: string[] = [];
    for (const question of QUESTIONS) {
      const { status, body } = await server.post('/v1/completions', question);
      expect(status, JSON.stringify(body)).toBe(200);
      right.push(essence(body));
    }
    const clients = [0, 2, 4, 6].map((first) => new Client(server, right, first));
    const downs: { failed: number; back: number }[] = [];
    for (let i = 0; i < FAULTS; i += 1) {
      const answered = () => clients.reduce((sum, { outcomes }) => sum + outcomes.length, 0);
      const before = answered();
      await eventually(() => answered() > before + 8, 'answers', 60_000);
      downs.push(await failDevice(server, file));
    }
    await Promise.all(clients.map((client) => client.stop()));
    const outcomes = clients.flatMap((client) => client.outcomes);
    const meanwhile = outcomes.filter(
      ({ status, began, ended }) =>
        status === 200 && downs.some(({ failed, back }) => began > failed && ended < back),
    );
    expect(outcomes.filter(({ right }) => !right)).toEqual([]);
    expect(meanwhile, 'answers of an engine whose device had failed').toEqual([]);
    expect((await metricsOf(server))('sida_engine_restarts_total')).toBe(FAULTS);
    expect(server.output).toMatch(/device_failed|cudaErrorIllegalAddress/);
    report.note(`${FAULTS} errors, each another engine`);
    report.note(`${outcomes.filter(({ status }) => status === 200).length} right answers`);
    report.note(`${outcomes.filter(({ status }) => status !== 200).length} refused`);
    const slowest = Math.max(...downs.map(({ failed, back }) => back - failed)) / 1000;
    report.withinTime('another engine after', slowest, 5, 's', await aStart(8));
    expect(await server.stop()).toBe(0);
  } finally {
    for (const name of Object.keys(mine)) delete process.env[name];
    rmSync(directory, { recursive: true });
  }
});
