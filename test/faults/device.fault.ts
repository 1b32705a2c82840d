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

fault('a sticky error of the GPU in the middle of a pass', async (report) => {
  const directory = mkdtempSync(join(tmpdir(), 'sida-device-'));
  const file = join(directory, 'fault');
  const mine = { SIDA_ADDON: buildEmulatedAddon(), SIDA_EMULATION_FAULT_FILE: file };
  Object.assign(process.env, mine);
  try {
    const server = await ServerProcess.start(['--model', TINY, '--device', 'cuda', '--memory-budget', '20%']);
    const ask = async (question: number) => {
      const began = performance.now();
      const { status, body } = await server.post('/v1/completions', QUESTIONS[question]);
      return { question, status, essence: essence(body), began, ended: performance.now() };
    };
    const right: string[] = [];
    for (const question of QUESTIONS.keys()) right.push((await ask(question)).essence);

    let going = true;
    const outcomes: Awaited<ReturnType<typeof ask>>[] = [];
    const clients = [0, 2, 4, 6].map(async (first) => {
      for (let i = first; going; i = (i + 1) % QUESTIONS.length) outcomes.push(await ask(i));
    });
    const downs: { failed: number; back: number }[] = [];
    for (let i = 0; i < FAULTS; i += 1) {
      const before = outcomes.length;
      await eventually(() => outcomes.length > before + 8, 'answers', 60_000);
      const [engine] = server.enginePids();
      writeFileSync(file, '');
      await eventually(() => !existsSync(file), 'a kernel');
      const failed = performance.now();
      await eventually(() => server.enginePids().some((pid) => pid !== engine), 'another engine');
      downs.push({ failed, back: performance.now() });
      await server.ready(60_000);
    }
    going = false;
    await Promise.all(clients);
    const answers = outcomes.filter(({ status }) => status === 200);
    expect(answers.filter((each) => each.essence !== right[each.question])).toEqual([]);
    const meanwhile = answers.filter(({ began, ended }) =>
      downs.some(({ failed, back }) => began > failed && ended < back),
    );
    expect(meanwhile, 'answers of an engine whose device had failed').toEqual([]);
    expect((await metricsOf(server))('sida_engine_restarts_total')).toBe(FAULTS);
    expect(server.output).toMatch(/device_failed|cudaErrorIllegalAddress/);
    report.note(`${FAULTS} errors, each another engine`);
    report.note(`${answers.length} right answers, ${outcomes.length - answers.length} refused`);
    const slowest = Math.max(...downs.map(({ failed, back }) => back - failed)) / 1000;
    report.withinTime('another engine after', slowest, 5, 's', await aStart(8));
    expect(await server.stop()).toBe(0);
  } finally {
    for (const name of Object.keys(mine)) delete process.env[name];
    rmSync(directory, { recursive: true });
  }
});
