// Weights that are no numbers: what they touch is refused, what they do not touch is answered as ever, nothing is null.
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect } from 'vitest';
import { ask } from '../support/http-client.js';
import { plant } from '../support/safetensors-edit.js';
import { MINI, metricsOf, ServerProcess, sst2 } from '../support/server-process.js';
import { fault } from './fault.js';
import { Subject } from './subject.js';

const LAYER = 'encoder.1';
const sentences = sst2()
  .slice(0, 80)
  .map(({ text }) => text);

const root = mkdtempSync(join(tmpdir(), 'sida-nonfinite-'));
let subject: Subject;
let golden: Awaited<ReturnType<typeof classifyEach>>;
let expert: number;
beforeAll(async () => {
  subject = await Subject.start();
  golden = await classifyEach(subject.port);
  expert = await popular();
});
afterAll(async () => {
  await subject.stop();
  rmSync(root, { recursive: true, force: true });
});

const portOf = ({ url }: ServerProcess) => Number(new URL(url).port);
const classify = (port: number, input: string | string[]) =>
  ask(port, '/v1/classify', { method: 'POST', body: { task: 'sst2', input } });

async function classifyEach(port: number) {
  const answers = [];
  for (const sentence of sentences) answers.push(await classify(port, sentence));
  return answers;
}

/** The expert of the layer that is used the most. */
async function popular(): Promise<number> {
  const { layers } = (await subject.ask('/admin/experts')).json;
  const { experts } = layers.find(({ layer }: { layer: string }) => layer === LAYER);
  const most = experts.reduce((best: { uses: number }, each: { uses: number }) =>
    each.uses > best.uses ? each : best,
  );
  return most.index;
}

/** A copy of switch-mini with one weight of the popular expert replaced. */
function damaged(name: string, matrix: 'wi' | 'wo', value: number): string {
  const model = join(root, name);
  rmSync(model, { recursive: true, force: true });
  cpSync(MINI, model, { recursive: true });
  const tensor = `encoder.block.1.layer.1.mlp.experts.expert_${expert}.${matrix}.weight`;
  plant(join(model, 'model.safetensors'), tensor, 130, value);
  return model;
}

/** What a pack calls a checkpoint's matrix. */
const PROJECTIONS = { wi: 'up', wo: 'down' };

for (const [matrix, value] of [
  ['wi', Number.NaN],
  ['wo', Number.NaN],
  ['wi', Number.POSITIVE_INFINITY],
  ['wo', Number.NEGATIVE_INFINITY],
] as const) {
  fault('F17', `${value} in ${matrix} of one expert`, async (report) => {
    const model = damaged('damaged', matrix, value);
    const server = await ServerProcess.start(['--model', model, '--memory-budget', '25%']);
    try {
      const found = await classifyEach(portOf(server));
      let refused = 0;
      for (const [i, { status, text, json }] of found.entries()) {
        if (status === 200) {
          expect(text).not.toContain('null');
          expect(json.data).toEqual(golden[i]!.json.data);
        } else {
          expect([status, json.error.code]).toEqual([500, 'nonfinite_output']);
          refused += 1;
        }
      }
      expect(refused).toBeGreaterThan(0);
      expect(refused).toBeLessThan(sentences.length);
      report.note(`${refused} of ${sentences.length} refused, the others as without it`);

      // One touched input of a list refuses the list; generations and streams say so too.
      const prompt = `sst2 sentence: ${sentences[found.findIndex(({ status }) => status !== 200)]}`;
      const list = await classify(portOf(server), sentences.slice(0, 32));
      expect([list.status, list.json.error.code]).toEqual([500, 'nonfinite_output']);
      for (const extra of [{}, { logprobs: 3 }]) {
        const body = { prompt, max_tokens: 4, ...extra };
        const { status, json } = await ask(portOf(server), '/v1/completions', { method: 'POST', body });
        expect([status, json.error.code]).toEqual([500, 'nonfinite_output']);
      }
      const body = { prompt, max_tokens: 4, stream: true };
      const stream = await ask(portOf(server), '/v1/completions', { method: 'POST', body });
      expect(stream.text).toContain('nonfinite_output');
      expect((await metricsOf(server))('sida_engine_restarts_total')).toBe(0);
    } finally {
      expect(await server.stop()).toBe(0);
    }

    const checked = await ServerProcess.launch(['--model', model, '--check-tensors']);
    expect(await checked.exit).toBe(4);
    expect(checked.output).toMatch(
      new RegExp(
        `^sida: .*experts\\.sida: ${LAYER} expert ${expert}: ${PROJECTIONS[matrix]}: row \\d+, column \\d+`,
        'm',
      ),
    );
    report.note('refused at the start by --check-tensors, with expert and row');
  });
}

fault('F17', 'rows of padding alone', async (report) => {
  for (const prompt of [[0], [0, 0, 0, 0], Array.from({ length: 64 }, () => 0)]) {
    const body = { prompt, max_tokens: 2, logprobs: 1 };
    const { status, text, json } = await subject.ask('/v1/completions', { method: 'POST', body });
    expect(status, text).toBe(200);
    expect(json.choices[0].logprobs.token_logprobs.every(Number.isFinite)).toBe(true);
  }
  const { json } = await classify(subject.port, '');
  expect(Object.values(json.data[0].scores).every(Number.isFinite)).toBe(true);
  const sound = await ServerProcess.start(['--model', MINI, '--check-tensors']);
  expect(await sound.stop()).toBe(0);
  report.note('answered with finite numbers; a sound model passes --check-tensors');
  await subject.recovered(report);
});
