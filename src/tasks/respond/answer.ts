/** Builds the answer of /v1/responses, whole or as the events of a stream, in OpenAI's format. */
import type { CompletionDelta } from '../../protocol/engine-messages.js';
import { partId } from '../shared/part-ids.js';
import { costParts } from '../shared/schema.js';
import type { AnswerAbout, AnswerError, Answers } from '../task.js';
import type { RespondForm, RespondResult } from './job.js';
import { type ItemEvent, OutputItems } from './output-items.js';
import type { ResponseAnswer } from './schema.js';

type Event = ItemEvent & { sequence_number: number };

export class ResponseAnswers implements Answers<RespondResult> {
  readonly #about: AnswerAbout<RespondForm>;
  /** Of a stream. */
  #items: OutputItems;
  #opened = false;
  #events = 0;

  constructor(about: AnswerAbout<RespondForm>) {
    this.#about = about;
    this.#items = this.#newItems();
  }

  whole(result: RespondResult): ResponseAnswer {
    const { parts, finishReason } = result.choices[0]!;
    const items = this.#newItems();
    for (const part of parts) items.add(part);
    items.finish(finishReason === 'stop');
    return this.#ended(result, items);
  }

  chunks({ parts = [], finishReason }: CompletionDelta): Event[] {
    const opening = this.#opened ? [] : this.#opening();
    this.#opened = true;
    const events = parts.flatMap((part) => this.#items.add(part));
    if (finishReason !== null) events.push(...this.#items.finish(finishReason === 'stop'));
    return this.#numbered([...opening, ...events]);
  }

  closing(result: RespondResult): Event[] {
    const response = this.#ended(result, this.#items);
    return this.#numbered([{ type: `response.${response.status}`, response }]);
  }

  /**
   * Some clients look at `response.failed`, others throw at an event with an `error`, and the types of others know its
   * fields beside the type.
   */
  failed(error: AnswerError): Event[] {
    const { code, message } = error;
    const response = { ...this.#response('failed', this.#items), error: { code, message } };
    return this.#numbered([
      { type: 'response.failed', response },
      { ...error, type: 'error', error },
    ]);
  }

  #opening(): ItemEvent[] {
    const response = this.#response('in_progress', new OutputItems(() => ''));
    return ['created', 'in_progress'].map((name) => ({ type: `response.${name}`, response }));
  }

  #ended(result: RespondResult, items: OutputItems): ResponseAnswer {
    const { promptTokens, cachedTokens = 0, completionTokens, reasoningTokens = 0 } = result;
    const { choices } = result;
    return {
      ...this.#response(choices[0]!.finishReason === 'stop' ? 'completed' : 'incomplete', items),
      usage: {
        input_tokens: promptTokens,
        input_tokens_details: { cached_tokens: cachedTokens },
        output_tokens: completionTokens,
        output_tokens_details: { reasoning_tokens: reasoningTokens },
        total_tokens: promptTokens + completionTokens,
      },
      ...costParts(this.#about.form, result),
    };
  }

  #response(status: ResponseAnswer['status'], { items }: OutputItems): ResponseAnswer {
    const { model, createdMs, form } = this.#about;
    return {
      ...form.echo,
      id: partId('resp', this.#about),
      object: 'response',
      created_at: Math.floor(createdMs / 1000),
      status,
      error: null,
      incomplete_details: status === 'incomplete' ? { reason: 'max_output_tokens' } : null,
      model,
      output: items,
      previous_response_id: null,
      store: false,
      usage: null,
    };
  }

  #newItems(): OutputItems {
    return new OutputItems((prefix, item) => partId(prefix, this.#about, item));
  }

  #numbered(events: readonly ItemEvent[]): Event[] {
    return events.map((event) => ({ ...event, sequence_number: this.#events++ }));
  }
}
