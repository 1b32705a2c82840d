// A predictor that goes away, fails or is slow: answers as without one, and hardly slower.
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect } from 'vitest';
import { broken, makeOverflow, makeSlow } from '../support/broken-predictors.js';
import { makePredictor, type PredictorFiles } from '../support/predictor-files.js';
import { classifyAll, type Metric, metricsOf, sst2 } from '../support/server-process.js';
import { fault } from './fault.js';
import { percentile, Subject } from './subject.js';

// With room for all labels of a batch: one that starts in parts needs less at a time than its table forecasts.
const SERVER = ['--memory-budget', '12.5%', '--max-batch-tokens', '256', '--kv-tokens', '4096'];
const ROUNDS = 9;
const sentences = sst2().slice(0, 160);

let files: PredictorFiles;
let onDemand: Subject;
let reference: Awaited<ReturnType<typeof classifyAll>>;
beforeAll(async () => {
  files = makePredictor(sentences.slice(0, 60));
  onDemand = await Subject.start(...SERVER, '--predictor', 'none');
  reference = await classifyAll(onDemand.server, sentences);
});
afterAll(async () => {
  await onDemand.stop();
  files.remove();
});

/** Seconds for all sentences; the answers are checked. */
async function timed({ server }: Subject): Promise<number> {
  const started = performance.now();
  expect(await classifyAll(server, sentences)).toEqual(reference);
  return (performance.now() - started) / 1000;
}

/** The predictor is missing when the engine starts again. */
async function takeAway({ server }: Subject): Promise<void> {
  rmSync(join(files.root, 'gone'), { recursive: true });
  for (const pid of server.enginePids()) process.kill(pid, 'SIGKILL');
  await server.until(async () => (await metricsOf(server))('sida_engine_restarts_total') > 0);
  await server.ready(60_000);
}

const none = async () => undefined;
const tables = (state: string) => (metric: Metric) => metric(`sida_hash_tables_total{state="${state}"}`);
const down = (metric: Metric) => 1 - metric('sida_predictor_up{function="none"}');

for (const [what, name, breakIt, disturb, shows] of [
  ['goes away, and is missing when the engine starts again', 'gone', () => undefined, takeAway, down],
  ['has an output that is not finite', 'overflow', makeOverflow, none, tables('failed')],
  ['is too slow', 'slow', makeSlow, none, tables('abandoned')],
] as const) {
  fault(`a predictor that ${what}`, async (report) => {
    const predictor = broken(files, name, breakIt);
    const subject = await Subject.start(...SERVER, '--predictor', predictor);
    try {
      await disturb(subject);
      const [mine, others]: [number[], number[]] = [[], []];
      for (let round = 0; round < ROUNDS; round += 1) {
        mine.push(await timed(subject));
        others.push(await timed(onDemand));
      }
      expect(shows(await subject.metrics())).toBeGreaterThan(0);
      report.note(`${2 * ROUNDS * sentences.length} answers as without one`);
      const throughput = percentile(others, 0.5) / percentile(mine, 0.5);
      report.ratio('throughput', throughput, 0.9, 0.5, 'of on-demand');
      await subject.recovered(report);
    } finally {
      await subject.stop();
    }
  });
}
