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
/** The expert of the layer that is used the most. */
let expert: number;
beforeAll(async () => {
  subject = await Subject.start();
  golden = await classifyEach(subject.port);
  const { layers } = (await subject.ask('/admin/experts')).json;
  const { experts } = layers.find(({ layer }: { layer: string }) => layer === LAYER);
  const most = Math.max(...experts.map(({ uses }: { uses: number }) => uses));
  expert = experts.find(({ uses }: { uses: number }) => uses === most).index;
});
afterAll(async () => {
  await subject.stop();
  rmSync(root, { recursive: true, force: true });
});

const post = (port: number, path: string, body: object) => ask(port, path, { method: 'POST', body });
const classify = (port: number, input: string | string[]) =>
  post(port, '/v1/classify', { task: 'sst2', input });

async function classifyEach(port: number) {
  const answers = [];
  for (const sentence of sentences) answers.push(await classify(port, sentence));
  return answers;
}

/** A copy of switch-mini with one weight of the popular expert replaced. */
function damaged(matrix: string, value: number): string {
  const model = join(root, 'damaged');
  rmSync(model, { recursive: true, force: true });
  cpSync(MINI, model, { recursive: true });
  const tensor = `encoder.block.1.layer.1.mlp.experts.expert_${expert}.${matrix}.weight`;
  plant(join(model, 'model.safetensors'), tensor, 130, value);
  return model;
}

/** A checkpoint's matrix, and what a pack calls it. */
for (const [matrix, projection, value] of [
  ['wi', 'up', Number.NaN],
  ['wo', 'down', Number.NaN],
  ['wi', 'up', Number.POSITIVE_INFINITY],
  ['wo', 'down', Number.NEGATIVE_INFINITY],
] as const) {
  fault(`${value} in ${matrix} of one expert`, async (report) => {
    const model = damaged(matrix, value);
    const server = await ServerProcess.start(['--model', model, '--memory-budget', '25%']);
    try {
      const found = await classifyEach(server.port);
      const touched = found.flatMap(({ status }, i) => (status === 200 ? [] : [i]));
      for (const [i, { status, text, json }] of found.entries()) {
        if (touched.includes(i)) expect([status, json.error.code]).toEqual([500, 'nonfinite_output']);
        else {
          expect(text).not.toContain('null');
          expect(json.data).toEqual(golden[i]!.json.data);
        }
      }
      expect(touched.length).toBeGreaterThan(0);
      expect(touched.length).toBeLessThan(sentences.length);
      report.note(`${touched.length} of ${sentences.length} refused, the others as without it`);

      // One touched input of a list refuses the list; generations and streams say so too.
      const prompt = `sst2 sentence: ${sentences[touched[0]!]}`;
      const complete = (more: object) =>
        post(server.port, '/v1/completions', { prompt, max_tokens: 4, ...more });
      const list = await classify(server.port, sentences.slice(0, 32));
      for (const { status, json } of [list, await complete({}), await complete({ logprobs: 3 })])
        expect([status, json.error.code]).toEqual([500, 'nonfinite_output']);
      expect((await complete({ stream: true })).text).toContain('nonfinite_output');
      expect((await metricsOf(server))('sida_engine_restarts_total')).toBe(0);
    } finally {
      expect(await server.stop()).toBe(0);
    }

    const checked = await ServerProcess.launch(['--model', model, '--check-tensors']);
    expect(await checked.exit).toBe(4);
    const line = `^sida: .*experts\\.sida: ${LAYER} expert ${expert}: ${projection}: row \\d+, column \\d+`;
    expect(checked.output).toMatch(new RegExp(line, 'm'));
    report.note('refused at the start by --check-tensors, with expert and row');
  });
}

fault('rows of padding alone', async (report) => {
  for (const length of [1, 4, 64]) {
    const body = { prompt: Array.from({ length }, () => 0), max_tokens: 2, logprobs: 1 };
    const { status, text, json } = await post(subject.port, '/v1/completions', body);
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
