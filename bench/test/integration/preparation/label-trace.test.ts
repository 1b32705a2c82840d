// The true tables of `replay` name the experts of all that a measured pass runs, and of the warm-up.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readBenchInputs } from '../../../src/preparation/inputs.js';
import { type PreparedModel, prepareModel } from '../../../src/preparation/prepare.js';
import { labelTraceOf } from '../../../src/preparation/traces.js';
import { SWITCH_WORDS } from '../../../src/scenarios/models.js';
import { systemFlags } from '../../../src/scenarios/systems.js';
import { runOnThreads } from '../../../src/systems/threads-driver.js';
import type { MeasurementWork } from '../../../src/systems/work.js';

const work = mkdtempSync(join(tmpdir(), 'sida-label-trace-'));
afterAll(() => rmSync(work, { recursive: true, force: true }));
const maker = { work, threads: 1, onStep: () => {} };

let prepared: PreparedModel;
let inputs: Awaited<ReturnType<typeof readBenchInputs>>;
beforeAll(async () => {
  prepared = await prepareModel(SWITCH_WORDS, maker);
  inputs = await readBenchInputs('words', { directory: undefined, sentences: 6, trainingSentences: 4 });
});

const traced = (texts: readonly string[]) => labelTraceOf(prepared, inputs, texts, maker);

/** `replay` with the true tables of these texts. */
async function replayed(texts: readonly string[]) {
  const trace = await traced(texts);
  const measured: MeasurementWork = {
    system: 'replay',
    flags: {
      ...{ model: prepared.pack, memoryBudget: '25%', threads: '1', hostBudget: '0' },
      ...systemFlags('replay', { predictor: 'none', trace }),
    },
    ...prepared,
    ...{ texts: inputs.texts, labels: inputs.labels, warmUp: inputs.training, batch: 1 },
  };
  return runOnThreads(measured);
}

describe('a trace of texts and labels', () => {
  it('lets `replay` name every expert of warm-up and measured passes, without a warning', async () => {
    const sample = await replayed([...inputs.texts, ...inputs.training]);
    expect(sample.warnings).toEqual([]);
    expect(sample.routingsPredicted).toBeGreaterThan(0);
    expect(sample.routingHitsTop1).toBe(sample.routingsPredicted);
  });

  it('leads to a warning where the warm-up was not recorded', async () => {
    const { warnings } = await replayed(inputs.texts);
    expect(warnings.join()).toContain('replay cannot name the experts');
  });
});
