import { describe, expect, it } from 'vitest';
import { ChatChoices, type ChatWork, chatInputs } from '../../../../src/tasks/shared/chat-work.js';
import type { ModelLimits } from '../../../../src/tasks/shared/prepared-input.js';
import { type AnswerFormat, CHANNEL_TOKENS, modelChat } from '../../../../src/text/chat/answer-format.js';
import { wholeAnswer } from '../../../../src/text/chat/answer-parts.js';
import { Detokenizer } from '../../../../src/text/detokenizer.js';
import { readTokenizerFile } from '../../../../src/text/tokenizing/tokenizer-file.js';
import { byteTokenizer } from '../../../support/byte-tokenizer.js';
import { DECODER_ONLY } from '../../scheduler/scripted-native-engine.js';

/** Control tokens follow the 256 bytes, which begin at 64. */
const FIRST = 320;
const END = 2;
const FIELDS = { conversation: 'messages', format: 'text.format' };

function limitsOf(tokens: string[], end: number, template: string, contextTokens = 512): ModelLimits {
  const json = byteTokenizer(END) as { added_tokens: object[] };
  json.added_tokens.push(...tokens.map((content, i) => ({ id: FIRST + i, content, special: true })));
  const file = readTokenizerFile(Buffer.from(JSON.stringify(json)));
  return {
    shape: { ...DECODER_ONLY, vocabSize: 400, contextTokens, tokens: { start: null, end: [end], pad: 0 } },
    contextTokens: Math.min(contextTokens, 1024),
    maxBatchTokens: 64,
    kvPages: 64,
    kvPageTokens: 16,
    kvWindows: [],
    maxInputBytes: 1000,
    texts: new Detokenizer(file),
    chat: modelChat({ texts: { default: template }, variables: {} }, file),
  } as ModelLimits;
}

const SCHEMA = { schema: '{}', closed: true };
const bytes = (text: string) => Array.from(Buffer.from(text), (byte) => 64 + byte);
const work = (answer: AnswerFormat, more: Partial<ChatWork> = {}): ChatWork => ({
  conversation: '{}',
  answer,
  tools: true,
  maxTokens: null,
  stop: [],
  logprobs: null,
  stream: false,
  ...more,
});

/** The answer to a prompt for which the model gives the tokens. */
function answerTo(limits: ModelLimits, prompt: number[], tokens: number[], more: Partial<ChatWork> = {}) {
  const { answer } = limits.chat!.format;
  const job = work(answer, more);
  const results = new ChatChoices(job, limits, chatInputs(job, limits, [Int32Array.from(prompt)], FIELDS));
  for (const id of tokens) results.token(0, { item: 0, choice: 0, id });
  const [choice] = results.finish().choices;
  return { ...wholeAnswer(choice!.parts), finishReason: choice!.finishReason };
}

/** Tokens of the reasoning in an answer of two choices with these tokens. */
function reasoningTokens(limits: ModelLimits, prompt: number[], first: number[], second: number[]) {
  const job = work(limits.chat!.format.answer, { choices: 2 });
  const results = new ChatChoices(job, limits, chatInputs(job, limits, [Int32Array.from(prompt)], FIELDS));
  for (const [choice, tokens] of [first, second].entries())
    for (const id of tokens) results.token(0, { item: 0, choice, id });
  return results.finish().reasoningTokens;
}

describe('a conversation beyond the context', () => {
  const limits = limitsOf([], END, '', 32);
  const refused = (tokens: number, more: Partial<ChatWork>) => () =>
    chatInputs(work(limits.chat!.format.answer, more), limits, [new Int32Array(tokens).fill(70)], FIELDS);

  it('is refused by the field that the request has, and by its own tokens without one', () => {
    const has = (tokens: number) => `The conversation has ${tokens} tokens`;
    const bound = "the model's maximum context length is 32 tokens";
    expect(refused(40, { maxTokens: null })).toThrow(`${has(40)}; ${bound}`);
    expect(refused(30, { maxTokens: 9, maxTokensField: 'max_output_tokens' })).toThrow(
      `${has(30)}, with "max_output_tokens" of 9 the model would see 38; ${bound}`,
    );
  });
});

describe('an answer that may be cut to the context', () => {
  const limits = limitsOf([], END, '', 32);
  const most = (prompt: number, maxTokens: number) => {
    const job = work(limits.chat!.format.answer, { maxTokens, cutToContext: true });
    const [input] = chatInputs(job, limits, [new Int32Array(prompt).fill(70)], FIELDS);
    return (input!.work as { maxTokens: number }).maxTokens;
  };

  it('has what the context has left, and no more than was asked', () => {
    expect(most(20, 1000)).toBe(13);
    expect(most(20, 5)).toBe(5);
    expect(most(32, 1000)).toBe(1);
  });

  it('is refused only by its prompt', () => {
    expect(() => most(33, 1000)).toThrow("The conversation has 33 tokens; the model's maximum");
  });
});

it('a conversation whose choices fit only one by one is refused by their number', () => {
  const limits = { ...limitsOf([], END, '', 512), kvPages: 32 };
  const job = work(limits.chat!.format.answer, { choices: 16, maxTokens: 400 });
  expect(() => chatInputs(job, limits, [Int32Array.from(bytes('hi'))], FIELDS)).toThrow(
    expect.objectContaining({ code: 'cannot_run', param: 'n' }),
  );
});

describe('an answer in the harmony format', () => {
  const names = Object.values(CHANNEL_TOKENS);
  const id = (name: keyof typeof CHANNEL_TOKENS) => FIRST + names.indexOf(CHANNEL_TOKENS[name]);
  const limits = limitsOf(names, id('return'), names.join(''));
  const prompt = [id('start'), ...bytes('user'), id('message'), ...bytes('Hi'), id('end')];
  const begun = [...prompt, id('start'), ...bytes('assistant')];

  it('is understood though its tokens are special, and begins in the prompt', () => {
    const analysis = [id('channel'), ...bytes('analysis'), id('message'), ...bytes('é.'), id('end')];
    const final = [id('start'), ...bytes('assistant'), id('channel'), ...bytes('final'), id('message')];
    const tokens = [...analysis, ...final, ...bytes('Write <|end|>!'), id('return')];
    expect(answerTo(limits, begun, tokens)).toEqual({
      reasoning: 'é.',
      content: 'Write <|end|>!',
      calls: [],
      finishReason: 'stop',
    });
  });

  it('counts the tokens of its reasoning with their header', () => {
    const header = [id('channel'), ...bytes('analysis'), id('message')];
    const analysis = [...header, ...bytes('add'), id('end')];
    const final = [id('start'), ...bytes('assistant'), id('channel'), ...bytes('final'), id('message')];
    const answer = [...final, ...bytes('4'), id('return')];
    expect(reasoningTokens(limits, begun, [...analysis, ...answer], answer)).toBe(header.length + 3);
    expect(reasoningTokens(limits, begun, answer, answer)).toBeUndefined();
  });

  it('may have its channel in the prompt', () => {
    const open = [...begun, id('channel'), ...bytes('analysis'), id('message')];
    expect(answerTo(limits, open, bytes('hm'), { maxTokens: 2 })).toMatchObject({
      reasoning: 'hm',
      content: '',
      finishReason: 'length',
    });
  });
});

describe('an answer with tags', () => {
  const limits = limitsOf([], END, '<think></think><tool_call></tool_call>');

  it('counts the tokens of its reasoning in all choices, with the tag before it', () => {
    const thought = [...bytes('<think>add</think>4'), END];
    expect(reasoningTokens(limits, bytes('2+2? '), thought, thought)).toBe(2 * '<think>add'.length);
    // The answer reaches its limit while it thinks.
    expect(reasoningTokens(limits, bytes('2+2? '), bytes('<think>ad'), [END])).toBe('<think>ad'.length);
    expect(reasoningTokens(limits, bytes('2+2? '), [...bytes('4'), END], [END])).toBeUndefined();
  });

  it('goes on with the reasoning that the prompt began', () => {
    const prompt = bytes('user: 2+2? assistant: <think>\n');
    const tokens = [...bytes('add\n</think>\n\n4'), END];
    expect(answerTo(limits, prompt, tokens)).toMatchObject({ reasoning: 'add', content: '4' });
    const closed = bytes('user: 2+2? <think> assistant: ');
    expect(answerTo(limits, closed, tokens).content).toBe('add\n</think>\n\n4');
  });

  it('stops at a stop text across tokens', () => {
    const tokens = bytes('one two three');
    expect(answerTo(limits, bytes('a'), tokens, { stop: ['o th'] })).toMatchObject({
      content: 'one tw',
      finishReason: 'stop',
    });
  });

  it('shows special tags', () => {
    const special = limitsOf(['<think>', '</think>'], END, 'x');
    const tokens = [FIRST, ...bytes('hm'), FIRST + 1, ...bytes('4'), END];
    expect(answerTo(special, bytes('a'), tokens)).toMatchObject({ reasoning: 'hm', content: '4' });
  });
});

describe('the length of an answer', () => {
  const limits = (context: number) => limitsOf([], END, 'x', context);
  const maxTokens = (prompt: number, of: ModelLimits, more: Partial<ChatWork> = {}) => {
    const job = work({ kind: 'tags', reasoning: false, toolCalls: false }, more);
    const [input] = chatInputs(job, of, [new Int32Array(prompt).fill(70)], FIELDS);
    return (input!.work as { maxTokens: number }).maxTokens;
  };

  it('is what the context and the cache have left, unless the request says less', () => {
    expect(maxTokens(100, limits(512))).toBe(413);
    expect(maxTokens(100, limits(4096))).toBe(925);
    expect(maxTokens(100, limits(512), { choices: 4 })).toBe(208);
    expect(maxTokens(100, limits(512), { maxTokens: 7 })).toBe(7);
  });

  it('has no more log-probabilities than an answer may have', () => {
    const wide = { ...limits(1 << 20), contextTokens: 1 << 20, kvPages: 1 << 16 };
    expect(maxTokens(4, wide, { logprobs: 20 })).toBe(6241);
  });
});

const CALL = { name: 'f', param: 'tools.1.parameters', ...SCHEMA };

it.each([
  ['the field of the format', { content: SCHEMA }, 'text.format'],
  ['the tool', { calls: [CALL] }, 'tools.1.parameters'],
  ['the tools of which one is called', { calls: [CALL, { ...CALL, name: 'g' }] }, 'tools'],
  ['the field of the format, which makes tools bind', { content: SCHEMA, calls: [] }, 'text.format'],
])('errors of a grammar name %s', (_, structure, param) => {
  const limits = limitsOf([], END, 'x');
  const job = work({ kind: 'tags', reasoning: false, toolCalls: true }, { structure });
  const [input] = chatInputs(job, limits, [Int32Array.from(bytes('a'))], FIELDS);
  expect(input!.work).toMatchObject({ grammar: { param } });
});
