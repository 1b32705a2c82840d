/**
 * The engine process's end of streams: sends pieces as the API process takes them. Who takes them too slowly gets fewer and larger
 * ones, so that what waits here is no more than the answers, and what is on its way is bounded; the engine never waits.
 */
import { appendDelta, openDelta } from '../protocol/completion-delta.js';
import type { CompletionDelta, FromEngine } from '../protocol/engine-messages.js';

/** Pieces of one stream that may be on their way to the API process. */
export const DELTAS_IN_FLIGHT = 16;
/** Tokens that one piece takes from those that waited: larger ones would keep the API process from other requests. */
const DELTA_TOKENS = 8;

type Final = Extract<FromEngine, { type: 'result' | 'error' }>;

interface Stream {
  credit: number;
  /** Of each choice in order, the oldest first. */
  waiting: CompletionDelta[];
  /** By choice, the last of those waiting, while it has room. */
  open: Map<number, CompletionDelta>;
  /** Follows the last piece. */
  final?: Final;
}

export class DeltaFlow {
  readonly #send: (message: FromEngine) => void;
  readonly #streams = new Map<string, Stream>();

  constructor(send: (message: FromEngine) => void) {
    this.#send = send;
  }

  /** Sends the pieces of one decode step, as far as their streams' credit goes. */
  add(deltas: { id: string; delta: CompletionDelta }[]): void {
    const sent = deltas.filter(({ id, delta }) => this.#admit(id, delta));
    if (sent.length > 0) this.#send({ type: 'deltas', deltas: sent });
  }

  /** The last word of a job: sent after its pieces. */
  end(message: Final): void {
    const stream = this.#streams.get(message.id);
    if (stream !== undefined && stream.waiting.length > 0) {
      stream.final = message;
      return;
    }
    this.#streams.delete(message.id);
    this.#send(message);
  }

  /** The API process has taken so many pieces of the stream. */
  taken(id: string, pieces: number): void {
    const stream = this.#streams.get(id);
    if (stream === undefined) return;
    stream.credit += pieces;
    const now = stream.waiting.splice(0, stream.credit);
    stream.credit -= now.length;
    for (const delta of now) if (stream.open.get(delta.index) === delta) stream.open.delete(delta.index);
    if (now.length > 0) this.#send({ type: 'deltas', deltas: now.map((delta) => ({ id, delta })) });
    if (stream.final !== undefined) this.end(stream.final);
  }

  /** Nothing more is sent of the stream. */
  drop(id: string): void {
    this.#streams.delete(id);
  }

  /** False: it waits. */
  #admit(id: string, delta: CompletionDelta): boolean {
    let stream = this.#streams.get(id);
    if (stream === undefined) {
      stream = { credit: DELTAS_IN_FLIGHT, waiting: [], open: new Map() };
      this.#streams.set(id, stream);
    }
    if (stream.credit > 0) {
      stream.credit -= 1;
      return true;
    }
    const { waiting, open } = stream;
    const last = open.get(delta.index);
    if (last !== undefined && last.tokenIds.length < DELTA_TOKENS) appendDelta(last, delta);
    else {
      const own = openDelta(delta);
      waiting.push(own);
      open.set(delta.index, own);
    }
    return false;
  }
}
