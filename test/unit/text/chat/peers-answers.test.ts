// Answers from other projects' tests: what their parsers find in them, ours find too, or a reason is given.
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { type AnswerFormat, CONTROL, chatFormat } from '../../../../src/text/chat/answer-format.js';
import type { CallFormName } from '../../../../src/text/chat/call-forms.js';
import { answerInPieces } from '../../../support/answer-in-pieces.js';
import { CALL_TEMPLATES } from '../../../support/call-templates.js';

interface PeerCase {
  family: string;
  template: string;
  tools: boolean;
  promptEndsWith: string | null;
  answer: string;
  right: { reasoning: string; content: string; calls: { name: string; arguments: unknown }[] };
  argued?: string;
}

const folder = new URL('../../../data/peers/', import.meta.url);
const lines = readFileSync(new URL('answers.jsonl', folder), 'utf8').split('\n').filter(Boolean);
const cases = lines.map((line) => JSON.parse(line) as PeerCase);

/** Which of our templates writes calls as the named one does. */
const FORMS: [RegExp, CallFormName][] = [
  [/^GLM-4\.7/, 'glm'],
  [/^GLM/i, 'glm_lines'],
  [/DeepSeek-V3\.1/, 'deepseek'],
  [/DeepSeek-R1|deepseek-r1/, 'deepseek_fenced'],
  [/Mistral-Small-3\.2/, 'mistral_ids'],
  [/Devstral/, 'mistral'],
  [/Nemo/, 'mistral_list'],
  [/Qwen3-Coder/, 'coder'],
  [/Qwen/, 'hermes'],
];

function formatOf({ template }: PeerCase): AnswerFormat {
  if (template.startsWith('openai-gpt-oss')) return { kind: 'channels' };
  const name = FORMS.find(([names]) => names.test(template))![1];
  const text = `${CALL_TEMPLATES[name]}{# <think> </think> #}`;
  return chatFormat({ texts: { default: text }, variables: {} }, { added_tokens: [] }).answer;
}

function found(each: PeerCase, lengths: number[]) {
  const format = formatOf(each);
  const own = format.kind === 'channels' ? each.answer.replace(/<\|/g, `${CONTROL}<|`) : each.answer;
  const { calls, ...texts } = answerInPieces(format, each.tools, (each.promptEndsWith ?? '') + own, lengths);
  const argumentsOf = (text: string, at: number) =>
    typeof each.right.calls[at]?.arguments === 'string' ? text : JSON.parse(text);
  return {
    ...texts,
    calls: calls.map((call, at) => ({ name: call.name, arguments: argumentsOf(call.arguments, at) })),
  };
}

describe.each([
  ['whole', [1 << 20]],
  ['by characters', [1]],
  ['in pieces', [3, 1, 7, 2]],
] as const)('answers %s', (_, lengths) => {
  it.each(cases.map((each, at) => [at + 1, each.family, each] as const))(
    'line %i: %s',
    (_line, _family, each) => {
      if (each.argued === undefined) expect(found(each, [...lengths])).toEqual(each.right);
      else expect(found(each, [...lengths])).not.toEqual(each.right);
    },
  );
});
