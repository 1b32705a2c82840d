// switch-words, a model whose experts hold what it knows: right at every budget, and wrong without them.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { REPO, ServerProcess } from '../../support/server-process.js';

const MODEL = join(REPO, 'models/switch-words');
const HELD_OUT = join(MODEL, 'words/known-held-out.jsonl');
const WORDS = readFileSync(HELD_OUT, 'utf8')
  .trimEnd()
  .split('\n')
  .slice(0, 96)
  .map((line) => JSON.parse(line) as { text: string; label: string });
/** Most inputs of a request. */
const AT_ONCE = 32;

async function labelsOf(server: ServerProcess): Promise<string[]> {
  const labels: string[] = [];
  for (let begin = 0; begin < WORDS.length; begin += AT_ONCE) {
    const input = WORDS.slice(begin, begin + AT_ONCE).map(({ text }) => text);
    const { status, body } = await server.post('/v1/classify', { task: 'category', input });
    expect(status, JSON.stringify(body)).toBe(200);
    labels.push(...body.data.map(({ label }: { label: string }) => label));
  }
  return labels;
}

it('knows the categories of words, and gives the same answers at a quarter of its experts and at few', async () => {
  const server = await ServerProcess.start(['--model', MODEL, '--memory-budget', '100%']);
  try {
    const labels = await labelsOf(server);
    const right = labels.filter((label, i) => label === WORDS[i]!.label).length;
    expect(right / WORDS.length).toBeGreaterThan(0.88);
    for (const budget of ['25%', 'smallest']) {
      await server.setBudget(budget);
      expect(await labelsOf(server)).toEqual(labels);
    }
  } finally {
    expect(await server.stop()).toBe(0);
  }
}, 180_000);

it('loses answers without its experts, more than by chance, and with random tables', () => {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [
      ...[join(REPO, 'bundle/cli/main.js'), 'eval', MODEL, '--data', HELD_OUT, '--task', 'category'],
      ...['--limit', '150', '--routing-k', '1', '--json'],
    ],
    { encoding: 'utf8' },
  );
  expect(status, stderr).toBe(0);
  const { labels } = JSON.parse(stdout).sources[0];
  expect(labels.told).toBe(true);
  expect(labels.exact.accuracy).toBeGreaterThan(0.88);
  expect(labels.exact.accuracy - labels.zeros.accuracy).toBeGreaterThan(0.1);
  expect(labels.predicted[0].random.accuracy).toBeLessThan(labels.predicted[0].accuracy);
}, 180_000);
