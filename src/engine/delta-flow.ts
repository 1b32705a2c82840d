/**
 * The engine process's end of streams. It sends deltas as fast as the API process takes them. A slow reader gets
 * fewer and larger deltas: the number in flight is bounded, and waiting deltas are joined. Waiting deltas take no
 * more memory than the answer, and the engine never waits for a reader.
 */

import type { CompletionDelta, FromEngine } from '../protocol/engine-messages.js';
import { appendDelta, openDelta } from '../protocol/engine-messages.js';

/** Most deltas of one stream that may be in flight to the API process. */
export const DELTAS_IN_FLIGHT = 16;
/** Most tokens joined into one delta. Larger deltas would keep the API process from other requests. */
const DELTA_TOKENS = 8;

type Final = Extract<FromEngine, { type: 'result' | 'error' }>;

interface Stream {
  credit: number;
  /** Waiting deltas, oldest first within each choice. */
  waiting: CompletionDelta[];
  /** By choice: the last waiting delta, which further tokens may be joined to. */
  open: Map<number, CompletionDelta>;
  /** Message to send after the last delta. */
  final?: Final;
}

export class DeltaFlow {
  readonly #send: (message: FromEngine) => void;
  readonly #streams = new Map<string, Stream>();

  constructor(send: (message: FromEngine) => void) {
    this.#send = send;
  }

  /** Sends the deltas of one decode step, as far as the credit of their streams allows. */
  add(deltas: { id: string; delta: CompletionDelta }[]): void {
    const sent = deltas.filter(({ id, delta }) => this.#admit(id, delta));
    if (sent.length > 0) this.#send({ type: 'deltas', deltas: sent });
  }

  /** Ends a job. The message is sent after the job's deltas. */
  end(message: Final): void {
    const stream = this.#streams.get(message.id);
    if (stream !== undefined && stream.waiting.length > 0) {
      stream.final = message;
      return;
    }
    this.#streams.delete(message.id);
    this.#send(message);
  }

  /** Records that the API process has taken `deltas` more deltas of the stream. */
  taken(id: string, deltas: number): void {
    const stream = this.#streams.get(id);
    if (stream === undefined) return;
    stream.credit += deltas;
    const now = stream.waiting.splice(0, stream.credit);
    stream.credit -= now.length;
    for (const delta of now) if (stream.open.get(delta.index) === delta) stream.open.delete(delta.index);
    if (now.length > 0) this.#send({ type: 'deltas', deltas: now.map((delta) => ({ id, delta })) });
    if (stream.final !== undefined) this.end(stream.final);
  }

  /** Drops the stream. Nothing more is sent for it. */
  drop(id: string): void {
    this.#streams.delete(id);
  }

  /** Returns true if the delta may be sent now. Otherwise the delta is queued. */
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
