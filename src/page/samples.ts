/** Short requests that each kind of model can answer. */
import { chats, hasTasks, type Model, translates } from './server.js';

export const QUESTIONS = [
  'What is a mammal?',
  'What kind of thing is a violin?',
  'Explain what a river is in one sentence.',
];
const TEXTS = [
  'The old violin stood by the river.',
  'Nobody expected the second film to be better.',
  'a violin',
];
const MOST_TOKENS = 32;

export interface Sample {
  path: string;
  body: object;
}

/** Nothing is drawn at random, so that each gives the same answer every time. Empty without a tokenizer. */
export function samplesOf(model: Model): Sample[] {
  const greedy = { model: model.id, temperature: 0, max_tokens: MOST_TOKENS };
  if (chats(model))
    return QUESTIONS.map((content) => ({
      path: '/v1/chat/completions',
      body: { ...greedy, messages: [{ role: 'user', content }] },
    }));
  if (translates(model)) {
    const [source, target] = ['eng_Latn', 'deu_Latn'].map(
      (code, at) => model.languages.find((language) => language === code) ?? model.languages.at(-at)!,
    );
    return TEXTS.map((input) => ({
      path: '/v1/translate',
      body: { model: model.id, input, source, target, max_tokens: MOST_TOKENS },
    }));
  }
  if (hasTasks(model)) {
    const [task, { template }] = Object.entries(model.tasks)[0]!;
    return TEXTS.map((text) => ({
      path: '/v1/classify',
      body: {
        model: model.id,
        task,
        input: Object.fromEntries(fieldsOf(template).map((name) => [name, text])),
      },
    }));
  }
  if (!model.has_tokenizer) return [];
  if (model.kind === 'encoder-only')
    return TEXTS.map((input) => ({ path: '/v1/embeddings', body: { model: model.id, input } }));
  return TEXTS.map((prompt) => ({ path: '/v1/completions', body: { ...greedy, prompt } }));
}

/** What a template of a task asks for. */
export const fieldsOf = (template: string) => [
  ...new Set([...template.matchAll(/\{([A-Za-z_]\w*)\}/g)].map(([, name]) => name!)),
];
