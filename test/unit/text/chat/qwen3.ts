/** The tokenizer and the chat template of Qwen3, and conversations that transformers rendered with them. */
import { readFileSync } from 'node:fs';
import { brotliDecompressSync } from 'node:zlib';
import { ChatEncoder } from '../../../../src/text/chat/chat-encoder.js';
import { controlTokens } from '../../../../src/text/chat/control-tokens.js';
import { readChatTemplates } from '../../../../src/text/chat/template-files.js';
import { Tokenizer } from '../../../../src/text/tokenizer.js';
import { readTokenizerFile } from '../../../../src/text/tokenizing/tokenizer-file.js';

const folder = new URL('../../../fixtures/tokenizers/qwen3/', import.meta.url);
const unpacked = (name: string) => brotliDecompressSync(readFileSync(new URL(`${name}.br`, folder)));

export interface ChatCase {
  messages: { role: string; content: string }[];
  tools?: object[];
  enable_thinking?: boolean;
  add_generation_prompt?: boolean;
  rendered: string;
  ids: number[];
}

export function readQwen3() {
  const json = unpacked('tokenizer.json');
  const templates = readChatTemplates(undefined, unpacked('tokenizer_config.json'))!;
  return { json, file: readTokenizerFile(json), templates };
}

export function openQwen3() {
  const { json, file, templates } = readQwen3();
  const tokenizer = new Tokenizer(json, { vocabSize: 151_936, maxInputBytes: 1 << 20 });
  const encoder = new ChatEncoder(tokenizer, controlTokens(file, templates), templates);
  const cases = unpacked('chat-cases.jsonl').toString().split('\n').filter(Boolean);
  return { file, templates, tokenizer, encoder, cases: cases.map((line) => JSON.parse(line) as ChatCase) };
}
