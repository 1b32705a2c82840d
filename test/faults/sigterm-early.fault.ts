// SIGTERM at twelve moments of a start, a conversion and a training: all of them end at once, and what they left does
// no harm.
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, expect } from 'vitest';
import { freePort } from '../support/free-port.js';
import { makePredictor } from '../support/predictor-files.js';
import { MINI, ServerProcess, sst2 } from '../support/server-process.js';
import { SidaProcess } from '../support/sida-process.js';
import { type FaultReport, fault } from './fault.js';
import { essence, goldenQuestions } from './golden.js';
import { aTimer } from './quiet.js';

const MOMENTS = 12;
const root = mkdtempSync(join(tmpdir(), 'sida-early-'));
const at = (name: string) => join(root, name);
afterAll(() => rmSync(root, { recursive: true, force: true }));

async function whole(args: string[]): Promise<number> {
  const started = performance.now();
  const run = new SidaProcess(args);
  expect(await run.exit, run.output).toBe(0);
  return performance.now() - started;
}

/** Ends `args` at moments spread over `wholeMs`. `clear` goes before every `every`th; `check` looks afterwards. */
async function endEarly(
  report: FaultReport,
  wholeMs: number,
  args: () => string[] | Promise<string[]>,
  { clear, every }: { clear: string; every: number },
  check: (completed: boolean) => void = () => undefined,
): Promise<void> {
  let [early, slowestMs] = [0, 0];
  for (let moment = 1; moment <= MOMENTS; moment += 1) {
    if (moment % every === 1 % every) rmSync(clear, { recursive: true, force: true });
    const run = new SidaProcess(await args());
    await delay((wholeMs * moment) / (MOMENTS + 1));
    if (run.alive) early += 1;
    const told = performance.now();
    const code = await run.stop();
    slowestMs = Math.max(slowestMs, performance.now() - told);
    expect(run.output).not.toMatch(/unhandledRejection|uncaughtException|This is a bug/i);
    check(code === 0);
  }
  expect(early, 'ended at work').toBeGreaterThan(MOMENTS / 2);
  report.note(`${early} ended at work`);
  report.withinTime('ended after', slowestMs / 1000, 2, 's', await aTimer(5));
}

fault('SIGTERM while the server packs and loads', async (report) => {
  const questions = (await goldenQuestions()).slice(0, 20);
  const started = performance.now();
  await (await ServerProcess.start(['--model', MINI])).stop();
  const serve = async () => [
    ...['serve', '--model', MINI, '--pack-dir', at('served'), '--port', String(await freePort())],
  ];
  // Now over nothing, now over what those before left.
  await endEarly(report, performance.now() - started, serve, { clear: at('served'), every: 3 });
  const server = await ServerProcess.start(['--model', MINI, '--pack-dir', at('served')]);
  for (const { path, body, right } of questions) {
    expect(essence((await server.post(path, body)).body)).toBe(right);
  }
  expect(await server.stop()).toBe(0);
  report.note(`${questions.length} right answers over what they left`);
});

function files(directory: string): Record<string, string> {
  const names = readdirSync(directory).sort();
  return Object.fromEntries(names.map((name) => [name, readFileSync(join(directory, name), 'latin1')]));
}

fault('SIGTERM while a checkpoint is converted', async (report) => {
  const convert = (out: string) => ['convert', MINI, '--out', at(out)];
  const wholeMs = await whole(convert('whole'));
  const same = () => expect(files(at('pack'))).toEqual(files(at('whole')));
  // It appears whole or not at all.
  const check = () => existsSync(at('pack')) && same();
  await endEarly(report, wholeMs, () => convert('pack'), { clear: at('pack'), every: 2 }, check);
  await whole([...convert('pack'), '--verify']);
  same();
  report.note('the pack is that of a conversion without an end, file by file');
});

fault('SIGTERM while a predictor is trained', async (report) => {
  const { trace, remove } = makePredictor(sst2().slice(0, 240));
  try {
    const network = ['--hidden', '16', '--lr', '5e-3', '--batch', '16', '--epochs', '3', '--threads', '1'];
    const train = (out: string) => [...['train', trace, '--out', at(out), ...network]];
    const wholeMs = await whole(train('trained'));
    const path = (out: string) => join(at(out), 'sida-predictor.json');
    const manifest = (out: string) => JSON.parse(readFileSync(path(out), 'utf8'));
    const check = (completed: boolean) => expect(existsSync(path('predictor'))).toBe(completed);
    await endEarly(report, wholeMs, () => train('predictor'), { clear: at('predictor'), every: 1 }, check);
    await whole(train('predictor'));
    expect(manifest('predictor')).toEqual(manifest('trained'));
    report.note('the predictor is that of a training without an end');
  } finally {
    remove();
  }
});
