import { expect, it } from 'vitest';
import { differencesOf, type PublishedModel } from '../../../../src/queue/redis/published-models.js';
import { MODEL, SETTINGS } from '../scripted-engine.js';

const own: PublishedModel = { queueName: '{a}', seenMs: 0, model: MODEL, settings: SETTINGS };
const { identity, formats } = MODEL;
const predictor = (fingerprint: string) => ({ name: 'lstm' as const, fingerprint, warnings: [] });
const predicted = (fingerprint: string): PublishedModel => ({
  ...own,
  model: { ...MODEL, predictor: predictor(fingerprint) },
  settings: { ...SETTINGS, routing: 'predicted' },
});

it.each<[string, PublishedModel, string[]]>([
  ['tokenizer', { ...own, model: { ...MODEL, identity: { ...identity, tokenizer: 'x' } } }, ['tokenizer']],
  ['tasks', { ...own, model: { ...MODEL, identity: { ...identity, tasks: null } } }, ['tasks']],
  [
    'weights and a template',
    { ...own, model: { ...MODEL, identity: { ...identity, weights: 'x', chatTemplate: 'y' } } },
    ['weights', 'chat template'],
  ],
  [
    'element types',
    { ...own, model: { ...MODEL, formats: { ...formats, experts: { dtype: 'bf16' } } } },
    ['--experts'],
  ],
  [
    'arithmetic',
    { ...own, settings: { ...SETTINGS, activations: 'int8', kv: 'bf16', device: 'cuda' } },
    ['--activations', '--kv', '--device'],
  ],
  ['nothing that is named', { ...own, model: { ...MODEL, fingerprint: 'x' } }, ['packed files']],
])('names %s', (_, other, parts) => {
  expect(differencesOf([own, own, other])).toEqual(parts);
});

it('names the predictor only where tables route', () => {
  expect(differencesOf([predicted('a'), predicted('b')])).toEqual(['--predictor']);
  const exact = { ...own, model: { ...MODEL, predictor: predictor('a') } };
  expect(differencesOf([own, exact])).toEqual(['packed files']);
});
