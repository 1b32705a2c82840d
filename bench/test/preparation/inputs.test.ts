import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { missingInputs, readBenchInputs } from '../../src/preparation/inputs.js';
import { taskOf } from '../../src/preparation/tasks.js';
import { MODELS_DIRECTORY } from '../../src/support/paths.js';

const wordsOf = (file: string) =>
  readFileSync(join(MODELS_DIRECTORY, 'switch-words/words', file), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { text: string; label: string });

describe('taskOf', () => {
  it('is the task of the model that declares it', () => {
    expect(taskOf('sst2').labels).toHaveLength(2);
    expect(taskOf('words')).toMatchObject({ template: 'category of: {text}' });
    expect(taskOf('words').labels).toHaveLength(25);
  });
});

describe('the words', () => {
  it('are bundled, and no directory of texts is needed or read', async () => {
    expect(missingInputs('words', undefined)).toBeUndefined();
    expect(missingInputs('mrpc', undefined)).toContain('--data');
    const options = { sentences: 3, trainingSentences: 2 };
    const without = await readBenchInputs('words', { ...options, directory: undefined });
    expect(await readBenchInputs('words', { ...options, directory: '/nowhere' })).toEqual(without);
  });

  it('are measured where the predictor did not see them, and learned from and warmed up where it did', async () => {
    const { texts, right, labels, training, template } = await readBenchInputs('words', {
      ...{ directory: undefined, sentences: 200, trainingSentences: 1000 },
    });
    const [unseen, seen] = [wordsOf('known-held-out.jsonl'), wordsOf('known.jsonl')];
    const filled = (text: string) => template.replace('{text}', text);
    expect(texts).toEqual(unseen.slice(0, 200).map(({ text }) => filled(text)));
    expect(right.map((label) => labels[label])).toEqual(unseen.slice(0, 200).map(({ label }) => label));
    expect(training).toEqual(seen.slice(0, 1000).map(({ text }) => filled(text)));
    expect(training.filter((text) => texts.includes(text))).toEqual([]);
  });
});
