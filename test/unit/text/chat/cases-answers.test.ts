// Answers of other projects' tests: what their parsers find in them, ours find too, whole and in pieces.
import { readFileSync } from 'node:fs';
import { expect } from 'vitest';
import { type AnswerFormat, CONTROL, chatFormat } from '../../../../src/text/chat/answer-format.js';
import type { CallFormName } from '../../../../src/text/chat/call-forms.js';
import { answerInPieces } from '../../../support/answer-in-pieces.js';
import { CALL_TEMPLATES } from '../../../support/call-templates.js';
import { CASES, casesOf, testCases } from '../../../support/cases.js';

interface Right {
  reasoning: string;
  content: string;
  calls: { name: string; arguments: unknown }[];
}

interface AnswerCase {
  id: string;
  template: string;
  tools: boolean;
  promptEndsWith: string | null;
  answer: string;
  right: Right;
}

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

function formatOf({ template }: AnswerCase): AnswerFormat {
  if (template.startsWith('openai-gpt-oss')) return { kind: 'channels' };
  const name = FORMS.find(([names]) => names.test(template))![1];
  const text = `${CALL_TEMPLATES[name]}{# <think> </think> #}`;
  return chatFormat({ texts: { default: text }, variables: {} }, { added_tokens: [] }).answer;
}

/** One piece, single characters, and pieces of several lengths. */
const LENGTHS = [[1 << 20], [1], [3, 1, 7, 2]];

function check(each: AnswerCase): void {
  const format = formatOf(each);
  const own = format.kind === 'channels' ? each.answer.replace(/<\|/g, `${CONTROL}<|`) : each.answer;
  // Arguments are compared as JSON, unless the case has their text.
  const argumentsOf = (text: string, at: number) =>
    typeof each.right.calls[at]?.arguments === 'string' ? text : JSON.parse(text);
  for (const lengths of LENGTHS) {
    const found = answerInPieces(format, each.tools, (each.promptEndsWith ?? '') + own, lengths);
    const calls = found.calls.map((call, at) => ({
      name: call.name,
      arguments: argumentsOf(call.arguments, at),
    }));
    expect({ ...found, calls }).toEqual(each.right);
  }
}

testCases('answers', casesOf<AnswerCase>('peers/answers.jsonl'), check, {
  'answer: gpt_oss: <|channel|>analysis<|message|>I will execute pytho':
    'without tools in the request, a call is content',
  'answer: the end of reasoning that never began': 'a stream has passed the text on before the tag comes',
  'answer: JSON of a call that does not close':
    'a stream has passed on the call, and its arguments are whole',
});

const report = (name: string) => JSON.parse(readFileSync(new URL(`reports/${name}`, CASES), 'utf8'));

const HARMONY = report('harmony-without-header.json').cases as { generated: string; right: Right }[];
const TAGS = report('tool-call-tag-in-string.json').cases as { answer: string; right: Right }[];

testCases(
  'bug reports: answers',
  [
    ...HARMONY.map(({ generated, right }) => ({
      template: 'openai-gpt-oss',
      promptEndsWith: `${CONTROL}<|start|>assistant`,
      answer: generated.replace(/⟦(\w+)⟧/g, '<|$1|>'),
      right,
    })),
    ...TAGS.map((each) => ({ ...each, template: 'Qwen', promptEndsWith: null })),
  ].map((each) => ({ id: each.answer, tools: true, ...each })),
  check,
);
