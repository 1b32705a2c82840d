/** The engine's part of a conversation: its prompt, its generation and its texts. */
import { z } from 'zod';
import type { CompletionDelta } from '../../protocol/engine-messages.js';
import type { GeneratedToken } from '../../protocol/inference-messages.js';
import type { GrammarWork } from '../../protocol/item-work.js';
import type { TextToEncode } from '../../protocol/tokenizer-messages.js';
import { answerGrammar } from '../../structured-output/answer-grammar.js';
import { type AnswerFormat, controlsOf } from '../../text/chat/answer-format.js';
import { answerParser } from '../../text/chat/answer-parser.js';
import { type AnswerParser, type AnswerPart, appendParts } from '../../text/chat/answer-parts.js';
import { answerPrefix, shownText } from '../../text/chat/shown-text.js';
import { shownToken } from '../../text/token-name.js';
import { GeneratedChoices } from './generated-choices.js';
import { grammarWork } from './grammar-work.js';
import { chargedTokens, checkBiases, storedAdjustments } from './logit-adjustments.js';
import { mostTokensWith } from './logprobs.js';
import { checkedInput, type ModelLimits, type PreparedInput, requireTexts } from './prepared-input.js';
import { requirePositive } from './request-checks.js';
import { checkStops, choicesOf } from './sampling.js';
import {
  count,
  MOST_STORED,
  resultFields,
  runFields,
  type StoredAnswer,
  sampling,
  storedAnswer,
  storedAnswerFormat,
  texts,
} from './stored.js';
import { heldSchemas, ownSchemas, type StoredStructure, storedStructure } from './structure.js';
import { heldBytes, inputTokensOf, reservedTokens, reservedTokensOf } from './token-estimates.js';
import { tokensLeft } from './tokens-left.js';

/** Tokens to reserve for an answer without a limit. The charge is corrected when it has ended. */
const RESERVED_TOKENS = 1024;

/** What a job holds of its conversation. */
export const chatFields = {
  /** A `Conversation` in JSON. */
  conversation: z.string(),
  /** Its UTF-8 bytes, which take milliseconds to count if it is long. Absent: they are counted. */
  conversationBytes: count.exactOptional(),
  /** What the answer has to say of the request. Absent: nothing. */
  warnings: texts.exactOptional(),
  /** How the model writes its answer. */
  answer: storedAnswerFormat,
  /** Whether the model may call tools. */
  tools: z.boolean(),
  /** What the answer must be; absent if it may be any text. */
  structure: storedStructure.exactOptional(),
  /** Choices. Default: 1. */
  choices: z.int().min(1).max(MOST_STORED).exactOptional(),
  /** Null: what the context has left. */
  maxTokens: z.int().min(1).nullable(),
  /** The field of the request that `maxTokens` comes from, which errors name. */
  maxTokensField: z.string().exactOptional(),
  /** Whether `maxTokens` may be more than the context has left; absent: such a job is refused. */
  cutToContext: z.boolean().exactOptional(),
  /** Absent if every choice takes the most likely tokens. */
  sampling: sampling.exactOptional(),
  /** Absent if nothing changes the logits. */
  adjustments: storedAdjustments.exactOptional(),
  stop: texts,
  /** Number of most likely tokens to report for each generated token; null for no log-probabilities. */
  logprobs: count.nullable(),
  stream: z.boolean(),
  ...runFields,
};

const chatJob = z.object(chatFields);
export type ChatWork = z.infer<typeof chatJob>;

export const chatResultFields = {
  choices: z.array(storedAnswer),
  /** Those of `completionTokens` that are reasoning; absent if none are. */
  reasoningTokens: count.exactOptional(),
  ...resultFields,
};

const chatResult = z.object(chatResultFields);
type ChatWorkResult = z.infer<typeof chatResult>;

export function chatTexts(job: ChatWork, limits: ModelLimits): TextToEncode[] {
  const { conversation, maxTokens, maxTokensField: param = 'max_tokens', stop } = job;
  requireTexts(limits, 'messages');
  checkStops(stop);
  if (maxTokens !== null) requirePositive(maxTokens, param);
  return [{ text: conversation, special: false, chat: true }];
}

/** Fields of a request, which errors name. */
interface ConversationFields {
  conversation: string;
  /** Of the answer. */
  format: string;
}

export function chatInputs(
  job: ChatWork,
  limits: ModelLimits,
  ids: readonly Int32Array[],
  fields: ConversationFields,
): PreparedInput[] {
  const tokens = ids[0]!;
  const choices = choicesOf(job);
  const room = Math.min(
    tokensLeft(tokens.length, choices.length, limits),
    mostTokensWith(job.logprobs, choices.length),
  );
  const bound = job.cutToContext === true ? null : job.maxTokens;
  const maxTokens = bound ?? Math.max(1, Math.min(room, job.maxTokens ?? room));
  const { logprobs, adjustments } = job;
  if (adjustments) checkBiases(adjustments, limits.shape);
  const grammar = chatGrammar(job, limits, tokens, fields.format);
  const work = {
    kind: 'generate' as const,
    maxTokens,
    logprobs,
    choices,
    ...(job.tokenExperts && { experts: true as const }),
    ...(adjustments && { adjustments }),
    ...(grammar && { grammar }),
  };
  const field = bound === null ? null : (job.maxTokensField ?? 'max_tokens');
  return [checkedInput({ tokens, work }, fields.conversation, 'The conversation', limits, field)];
}

/** The grammar of the answer; undefined if it may be any text. */
function chatGrammar(
  { structure, answer: format }: ChatWork,
  limits: ModelLimits,
  tokens: Int32Array,
  formatField: string,
): GrammarWork | undefined {
  if (structure === undefined) return undefined;
  const shown = limits.chat?.shown ?? new Map<number, string>();
  const prefix = answerPrefix(format, tokens, shownText(requireTexts(limits, 'messages'), shown));
  const controls = controlsOf(shown).values();
  const param = demandingField(structure, formatField);
  return grammarWork(answerGrammar(structure, { format, controls, prefix }), param, limits);
}

/** The field that demands it. Where a format and tools bind the answer, tools do so because of the format. */
function demandingField({ content, calls = [] }: StoredStructure, formatField: string): string {
  if (content !== undefined) return formatField;
  return calls.length === 1 ? calls[0]!.param : 'tools';
}

/** Collects the choices of a conversation. */
export class ChatChoices {
  readonly #choices: GeneratedChoices;
  /** Of each choice. */
  readonly #answers: AnswerOfTokens[];

  constructor(job: ChatWork, limits: ModelLimits, inputs: readonly PreparedInput[]) {
    const texts = requireTexts(limits, 'messages');
    const shown = limits.chat?.shown ?? new Map();
    const [{ tokens, work } = { tokens: [], work: undefined }] = inputs;
    const decode = shownText(texts, shown);
    const options = {
      maxTokens: work?.kind === 'generate' ? work.maxTokens : 1,
      stop: job.stop,
      endTokens: limits.shape.tokens.end,
      decode,
      tokenText: shownToken(texts),
      logprobs: job.logprobs !== null,
      // Special tokens are no part of the texts of an answer.
      unnamed: (id: number) => texts.decode([id], true) === '' && texts.decode([id], false) !== '',
      prefix: answerPrefix(job.answer, tokens, decode),
    };
    const choices = job.choices ?? 1;
    this.#choices = new GeneratedChoices(1, choices, () => options);
    this.#answers = Array.from({ length: choices }, () => new AnswerOfTokens(job.answer, job.tools));
  }

  token(input: number, token: GeneratedToken): CompletionDelta | undefined {
    const delta = this.#choices.token(input, token);
    if (delta === undefined) return undefined;
    const parts = this.#answers[delta.index]!.push(delta.text, delta.finishReason !== null);
    return { ...delta, text: '', parts };
  }

  finish(): Pick<ChatWorkResult, 'choices' | 'completionTokens' | 'reasoningTokens'> {
    const reasoningTokens = this.#answers.reduce((sum, answer) => sum + answer.reasoningTokens, 0);
    const { choices, completionTokens } = this.#choices.finish();
    return {
      choices: choices.map(({ text: _, ...choice }): StoredAnswer => {
        return { ...choice, parts: this.#answers[choice.index]!.parts };
      }),
      completionTokens,
      ...(reasoningTokens > 0 && { reasoningTokens }),
    };
  }
}

/** The parts of one answer, and the tokens of its reasoning. */
class AnswerOfTokens {
  readonly parts: AnswerPart[] = [];
  reasoningTokens = 0;
  readonly #parser: AnswerParser;
  /** Tokens since the last part, such as those of a tag. They belong to the part that follows. */
  #waiting = 0;

  constructor(format: AnswerFormat, tools: boolean) {
    this.#parser = answerParser(format, tools);
  }

  /** Takes what one token adds to the text, and whether it is the last. Returns the parts that became certain. */
  push(text: string, last: boolean): AnswerPart[] {
    this.#waiting += 1;
    const parts = this.#parser.push(text);
    if (last) appendParts(parts, this.#parser.finish());
    if (parts.length === 0) return parts;
    if (parts.some(({ kind }) => kind === 'reasoning')) this.reasoningTokens += this.#waiting;
    this.#waiting = 0;
    appendParts(this.parts, parts);
    return parts;
  }
}

function bytesOf({ conversation, conversationBytes }: ChatWork): number {
  return conversationBytes ?? Buffer.byteLength(conversation);
}

export const chatTokens = {
  input: (job: ChatWork) => Math.max(1, inputTokensOf(bytesOf(job))),
  bytes: (job: ChatWork) =>
    bytesOf(job) + heldBytes([...heldSchemas(job.structure), ...(job.adjustments?.biases ?? [])]),
  cost: (job: ChatWork) => ({
    known: chargedTokens(job) * (job.maxTokens ?? RESERVED_TOKENS) * (job.choices ?? 1),
    estimated: reservedTokensOf(bytesOf(job)) + reservedTokens(ownSchemas(job.structure)),
  }),
  // The conversation has the schemas of the tools.
  texts: ({ conversation, structure }: ChatWork) => [conversation, ...ownSchemas(structure)],
  used: (job: ChatWork, { promptTokens, completionTokens }: ChatWorkResult) =>
    promptTokens + chargedTokens(job) * completionTokens,
};
