/** Builds the answer of a chat, whole or as stream chunks, in OpenAI's format. */
import type { CompletionDelta } from '../../protocol/engine-messages.js';
import { type AnswerPart, wholeAnswer } from '../../text/chat/answer-parts.js';
import { partId } from '../shared/part-ids.js';
import { closingParts, expertParts, usageAnswer } from '../shared/schema.js';
import { UsageSoFar } from '../shared/stream-options.js';
import type { AnswerAbout, Answers } from '../task.js';
import type { ChatForm, ChatResult } from './job.js';
import { chatLogprobs } from './logprobs.js';
import type { ChatAnswer, ChatChunk, ChatLogprobs } from './schema.js';

type Delta = ChatChunk['choices'][number]['delta'];

/** A choice whose stream has begun. */
interface OpenChoice {
  called: boolean;
  /** Not yet sent: a token that adds no text waits for the next chunk. */
  logprobs: ChatLogprobs['content'];
  tokenIds: number[];
}

/** Builds all chunks of one answer, which share an id and a creation time. */
export class ChatAnswers implements Answers<ChatResult> {
  readonly #about: AnswerAbout<ChatForm>;
  readonly #open = new Map<number, OpenChoice>();
  readonly #used: UsageSoFar<ChatAnswer['usage']>;

  constructor(about: AnswerAbout<ChatForm>) {
    this.#about = about;
    this.#used = new UsageSoFar(about, chatUsage);
  }

  whole(result: ChatResult): ChatAnswer {
    const { form } = this.#about;
    return {
      ...this.#envelope('chat.completion'),
      choices: result.choices.map((choice) => this.#choice(choice)),
      usage: chatUsage(result),
      ...expertParts(form, result),
    };
  }

  chunks(delta: CompletionDelta): ChatChunk[] {
    const { index, parts = [], finishReason } = delta;
    const { form } = this.#about;
    const chunks: ChatChunk[] = [];
    this.#used.add(delta);
    let choice = this.#open.get(index);
    if (choice === undefined) {
      choice = { called: false, logprobs: [], tokenIds: [] };
      this.#open.set(index, choice);
      chunks.push(this.#chunk(index, { role: 'assistant', content: '' }, null));
    }
    if (form.logprobs) choice.logprobs.push(...(chatLogprobs(delta.logprobs)?.content ?? []));
    if (form.tokenIds) choice.tokenIds.push(...delta.tokenIds);
    for (const part of parts) {
      choice.called ||= part.kind === 'call';
      chunks.push(this.#chunk(index, this.#delta(index, part), null, choice));
    }
    if (finishReason !== null) {
      const reason = finishReason === 'stop' && choice.called ? 'tool_calls' : finishReason;
      chunks.push(this.#chunk(index, {}, reason, choice));
    }
    return chunks;
  }

  closing(result: ChatResult): ChatChunk[] {
    const cost = closingParts(this.#about, result, chatUsage(result));
    return cost === undefined ? [] : [{ ...this.#envelope('chat.completion.chunk'), choices: [], ...cost }];
  }

  #choice({ index, parts, finishReason, logprobs, tokenIds }: ChatResult['choices'][number]) {
    const { form } = this.#about;
    const { reasoning, content, calls } = wholeAnswer(parts);
    return {
      index,
      message: {
        role: 'assistant' as const,
        content: content === '' && calls.length > 0 ? null : content,
        refusal: null,
        ...(reasoning !== '' && { reasoning_content: reasoning }),
        ...(calls.length > 0 && {
          tool_calls: calls.map((call, at) => {
            return { id: this.#callId(index, at), type: 'function' as const, function: call };
          }),
        }),
      },
      logprobs: form.logprobs ? chatLogprobs(logprobs) : null,
      finish_reason: finishReason === 'stop' && calls.length > 0 ? ('tool_calls' as const) : finishReason,
      ...(form.tokenIds && { token_ids: tokenIds }),
    };
  }

  #delta(index: number, part: AnswerPart): Delta {
    switch (part.kind) {
      case 'content':
        return { content: part.text };
      case 'reasoning':
        return { reasoning_content: part.text };
      case 'arguments':
        return { tool_calls: [{ index: part.call, function: { arguments: part.text } }] };
      case 'call': {
        const { call, name } = part;
        const id = this.#callId(index, call);
        return { tool_calls: [{ index: call, id, type: 'function', function: { name, arguments: '' } }] };
      }
    }
  }

  #callId(index: number, call: number): string {
    return partId('call', this.#about, index, call);
  }

  /** Sends what waits in `open` along. */
  #chunk(
    index: number,
    delta: Delta,
    finishReason: ChatChunk['choices'][number]['finish_reason'],
    open?: OpenChoice,
  ): ChatChunk {
    const { form } = this.#about;
    const logprobs = open?.logprobs.splice(0) ?? [];
    const tokenIds = open?.tokenIds.splice(0) ?? [];
    return {
      ...this.#envelope('chat.completion.chunk'),
      ...this.#used.field,
      choices: [
        {
          index,
          delta,
          logprobs: logprobs.length > 0 ? { content: logprobs, refusal: null } : null,
          finish_reason: finishReason,
          ...(form.tokenIds && { token_ids: tokenIds }),
        },
      ],
    };
  }

  #envelope<Kind extends string>(object: Kind) {
    const { model, id, createdMs } = this.#about;
    return { id: `chatcmpl-${id}`, object, created: Math.floor(createdMs / 1000), model };
  }
}

function chatUsage({
  reasoningTokens = 0,
  ...used
}: Pick<
  ChatResult,
  'promptTokens' | 'cachedTokens' | 'completionTokens' | 'reasoningTokens'
>): ChatAnswer['usage'] {
  return { ...usageAnswer(used), completion_tokens_details: { reasoning_tokens: reasoningTokens } };
}
