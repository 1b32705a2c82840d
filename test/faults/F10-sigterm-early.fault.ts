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

/** Ends `args` at moments spread over `wholeMs`; gives how many were still at work. `check` looks at what is left. */
async function endEarly(
  report: FaultReport,
  wholeMs: number,
  args: () => string[] | Promise<string[]>,
  check: (completed: boolean) => void,
): Promise<void> {
  let [early, slowestMs] = [0, 0];
  for (let moment = 1; moment <= MOMENTS; moment += 1) {
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

fault('F10', 'SIGTERM while the server packs and loads', async (report) => {
  const questions = (await goldenQuestions()).slice(0, 20);
  const started = performance.now();
  await (await ServerProcess.start(['--model', MINI])).stop();
  const wholeMs = performance.now() - started;
  let left = 0;
  await endEarly(
    report,
    wholeMs,
    async () => {
      // Now over nothing, now over what those before left.
      if (left % 3 === 0) rmSync(at('served'), { recursive: true, force: true });
      left += 1;
      return ['serve', '--model', MINI, '--pack-dir', at('served'), '--port', String(await freePort())];
    },
    () => undefined,
  );
  const server = await ServerProcess.start(['--model', MINI, '--pack-dir', at('served')]);
  for (const { path, body, right } of questions) {
    expect(essence((await server.post(path, body)).body)).toBe(right);
  }
  expect(await server.stop()).toBe(0);
  report.note(`${questions.length} right answers over what they left`);
});

function files(directory: string): Record<string, string> {
  return Object.fromEntries(
    readdirSync(directory)
      .sort()
      .map((name) => [name, readFileSync(join(directory, name), 'latin1')]),
  );
}

fault('F10', 'SIGTERM while a checkpoint is converted', async (report) => {
  const wholeMs = await whole(['convert', MINI, '--out', at('whole')]);
  let fresh = 0;
  await endEarly(
    report,
    wholeMs,
    () => {
      if (fresh % 2 === 0) rmSync(at('pack'), { recursive: true, force: true });
      fresh += 1;
      return ['convert', MINI, '--out', at('pack')];
    },
    // It appears whole or not at all.
    () => existsSync(at('pack')) && expect(files(at('pack'))).toEqual(files(at('whole'))),
  );
  await whole(['convert', MINI, '--out', at('pack'), '--verify']);
  expect(files(at('pack'))).toEqual(files(at('whole')));
  report.note('the pack is that of a conversion without an end, file by file');
});

fault('F10', 'SIGTERM while a predictor is trained', async (report) => {
  const { trace, remove } = makePredictor(sst2().slice(0, 240));
  try {
    const train = (out: string) => {
      const network = ['--hidden', '16', '--lr', '5e-3', '--batch', '16', '--epochs', '3', '--threads', '1'];
      return ['train', trace, '--out', at(out), ...network];
    };
    const wholeMs = await whole(train('trained'));
    const manifest = (out: string) => JSON.parse(readFileSync(join(at(out), 'sida-predictor.json'), 'utf8'));
    await endEarly(
      report,
      wholeMs,
      () => {
        rmSync(at('predictor'), { recursive: true, force: true });
        return train('predictor');
      },
      (completed) =>
        expect(existsSync(join(at('predictor'), 'sida-predictor.json')), 'served later').toBe(completed),
    );
    await whole(train('predictor'));
    expect(manifest('predictor')).toEqual(manifest('trained'));
    report.note('the predictor is that of a training without an end');
  } finally {
    remove();
  }
});
