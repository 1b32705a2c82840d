/** Which experts a job would need, for whoever chooses where it runs: asked before the job is given to anybody. */
import { encodeBatch } from '../engine/encode-batch.js';
import { visitsOf } from '../inference/expected-visits.js';
import { requestNeed } from '../placement/request-need.js';
import { profiled } from '../profile/thread-events.js';
import { batchInput } from './batch-input.js';
import type { FromHashBuilder, ToHashBuilder } from './hash-builder-thread.js';
import type { RoutingShape } from './hash-function.js';
import type { ResidentFlag } from './resident-flag.js';
import type { TableBuilder } from './table-builder.js';

export type Question = Extract<ToHashBuilder, { type: 'ask' }>;

export interface RequestNeedsOptions {
  /** Null: nobody predicts. */
  builder: TableBuilder | null;
  shape: Pick<RoutingShape, 'encoderLayers' | 'decoderLayers' | 'experts'>;
  resident: ResidentFlag;
  emit: (message: FromHashBuilder) => void;
}

export class RequestNeeds {
  readonly #options: RequestNeedsOptions;
  readonly #questions: Question[] = [];

  constructor(options: RequestNeedsOptions) {
    this.#options = options;
  }

  ask(question: Question): void {
    this.#questions.push(question);
  }

  /** False: nobody asks. */
  answerOne(): boolean {
    const question = this.#questions.shift();
    if (question === undefined) return false;
    const tokens = question.items.reduce((sum, item) => sum + item.tokens.length, 0);
    const need = profiled('build table', () => this.#need(question), { tokens });
    this.#options.emit({ type: 'needs', question: question.question, need });
    return true;
  }

  #need({ items }: Question): Float64Array | null {
    const { builder, resident, shape } = this.#options;
    if (builder === null || resident.all) return null;
    const tables = builder.ahead(batchInput(encodeBatch(0, items)));
    if (tables === null) return null;
    const visits = [...visitsOf(tables.encoder, 0), ...visitsOf(tables.decoder, shape.encoderLayers)];
    return requestNeed(visits, (shape.encoderLayers + shape.decoderLayers) * shape.experts);
  }
}
