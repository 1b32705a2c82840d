import { expect, it } from 'vitest';
import { controlTokens } from '../../../../src/text/chat/control-tokens.js';

it('are the special tokens, and those that the template writes, that answers are read by or that look like special ones', () => {
  const token = (content: string, special = false) => ({ id: content.length, content, special });
  const added = [
    token('<s>', true),
    token('<|fim_prefix|>'),
    token('<｜tool▁sep｜>'),
    token('<think>'),
    token('<h1>'),
    token('</tool_call>'),
    token('role'),
    token('    '),
    token('|'),
  ];
  const texts = { default: "{% if message['role'] == 'a' %}    <think>|{% endif %}" };
  const { special, others } = controlTokens({ added_tokens: added }, { texts });
  expect([...special]).toEqual(['<s>']);
  expect([...others]).toEqual(['<|fim_prefix|>', '<｜tool▁sep｜>', '<think>', '</tool_call>']);
});
