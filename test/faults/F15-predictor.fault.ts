// A predictor that is missing, broken, wrong or slow: answers as without one, and hardly slower.

import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect } from 'vitest';
import {
  broken,
  fillWeights,
  makeOverflow,
  makeSlow,
  makeSure,
  networkOf,
  replaceNetwork,
} from '../support/broken-predictors.js';
import { makePredictor, type PredictorFiles, withTables } from '../support/predictor-files.js';
import { classifyAll, metricsOf, sst2 } from '../support/server-process.js';
import { fault } from './fault.js';
import { percentile, Subject } from './subject.js';

// With room for all labels of a batch: one that starts in parts needs less at a time than its table forecasts.
const SERVER = ['--memory-budget', '12.5%', '--max-batch-tokens', '256', '--kv-tokens', '4096'];
const ROUNDS = 9;
/** True tables count for more, wrong ones for less. */
const BELIEVED = 0.5;
const sentences = sst2().slice(0, 160);
/** What the predictor is made of. */
const learned = sentences.slice(0, 60);

let files: PredictorFiles;
let onDemand: Subject;
let reference: Awaited<ReturnType<typeof classifyAll>>;
beforeAll(async () => {
  files = makePredictor(learned);
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

/** Throughput as a share of on-demand's, both measured in turn. */
async function share(subject: Subject): Promise<number> {
  const [mine, others]: number[][] = [[], []];
  for (let round = 0; round < ROUNDS; round += 1) {
    mine!.push(await timed(subject));
    others!.push(await timed(onDemand));
  }
  return percentile(others!, 0.5) / percentile(mine!, 0.5);
}

interface Broken {
  what: string;
  flags: () => string[];
  /** What the laboratory fills its tables with. */
  tables?: 'shuffled';
  /** Done once the server is ready. */
  disturb?: (subject: Subject) => Promise<void>;
  /** More than 0 where the metrics tell of it. */
  shows: (metric: (name: string) => number) => number;
}

const directory = (name: string, breakIt: (path: string) => void) => () => [
  '--predictor',
  broken(files, name, breakIt),
];
const down = (metric: (name: string) => number) => 1 - metric('sida_predictor_up{function="none"}');
const tables = (state: string) => (metric: (name: string) => number) =>
  metric(`sida_hash_tables_total{state="${state}"}`);

const BROKEN: Broken[] = [
  {
    what: 'goes away, and is missing when the engine starts again',
    flags: directory('gone', () => undefined),
    async disturb({ server }) {
      rmSync(join(files.root, 'gone'), { recursive: true });
      for (const pid of server.enginePids()) process.kill(pid, 'SIGKILL');
      await server.until(async () => (await metricsOf(server))('sida_engine_restarts_total') > 0);
      await server.ready(60_000);
    },
    shows: down,
  },
  {
    what: 'has the wrong shape',
    flags: directory('shape', (path) => replaceNetwork(networkOf(path, 'encoder'), { experts: 32 })),
    shows: down,
  },
  {
    what: 'has weights that are NaN',
    flags: directory('nan', (path) => fillWeights(networkOf(path, 'encoder'), Number.NaN)),
    shows: down,
  },
  {
    what: 'has an output that is not finite',
    flags: directory('overflow', makeOverflow),
    shows: tables('failed'),
  },
  {
    what: 'is always wrong',
    flags: directory('sure', makeSure),
    tables: 'shuffled',
    shows: (metric) => BELIEVED - metric('sida_hash_table_weight'),
  },
  { what: 'is too slow', flags: directory('slow', makeSlow), shows: tables('abandoned') },
];

for (const { what, flags, tables, disturb, shows } of BROKEN) {
  fault('F15', `a predictor that ${what}`, async (report) => {
    const start = () => Subject.start(...SERVER, '--governor', 'off', ...flags());
    const subject = await (tables === undefined ? start() : withTables(tables, start));
    try {
      await disturb?.(subject);
      const throughput = await share(subject);
      const metric = await metricsOf(subject.server);
      expect(shows(metric)).toBeGreaterThan(0);
      report.note(`${2 * ROUNDS * sentences.length} answers as without one`);
      report.note(`hash tables count for ${metric('sida_hash_table_weight').toFixed(2)}`);
      report.ratio('throughput', throughput, 0.9, 0.5, 'of on-demand');
      await subject.recovered(report);
    } finally {
      await subject.stop();
    }
  });
}

fault('F15', 'hash tables that are true, beside them', async (report) => {
  const flags = [...SERVER, '--governor', 'off', '--predictor', files.trace];
  const subject = await withTables('replay', () => Subject.start(...flags));
  try {
    for (let round = 0; round < 3; round += 1)
      expect(await classifyAll(subject.server, learned)).toEqual(reference.slice(0, learned.length));
    const weight = (await metricsOf(subject.server))('sida_hash_table_weight');
    expect(weight).toBeGreaterThan(BELIEVED);
    report.note(`true hash tables count for ${weight.toFixed(2)}`);
  } finally {
    await subject.stop();
  }
});
