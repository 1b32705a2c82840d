/**
 * The engine process's end of streams. It sends deltas as the API process takes them. A slow reader gets fewer
 * and larger deltas: the number in flight is bounded, those that wait take no more room than the answer, and
 * the engine never waits.
 */
import { appendDelta, openDelta } from '../protocol/completion-delta.js';
import type { CompletionDelta, FromEngine } from '../protocol/engine-messages.js';

/** Deltas of one stream that may be in flight to the API process. */
export const DELTAS_IN_FLIGHT = 16;
/** Most tokens that are joined into one delta: larger ones would keep the API process from other requests. */
const DELTA_TOKENS = 8;

type Final = Extract<FromEngine, { type: 'result' | 'error' }>;

interface Stream {
  credit: number;
  /** In order within each choice, the oldest first. */
  waiting: CompletionDelta[];
  /** By choice, the last waiting delta, while it has room. */
  open: Map<number, CompletionDelta>;
  /** Sent after the last delta. */
  final?: Final;
}

export class DeltaFlow {
  readonly #send: (message: FromEngine) => void;
  readonly #streams = new Map<string, Stream>();

  constructor(send: (message: FromEngine) => void) {
    this.#send = send;
  }

  /** Sends the deltas of one decode step, as far as their streams' credit allows. */
  add(deltas: { id: string; delta: CompletionDelta }[]): void {
    const sent = deltas.filter(({ id, delta }) => this.#admit(id, delta));
    if (sent.length > 0) this.#send({ type: 'deltas', deltas: sent });
  }

  /** Ends a job: the message is sent after its deltas. */
  end(message: Final): void {
    const stream = this.#streams.get(message.id);
    if (stream !== undefined && stream.waiting.length > 0) {
      stream.final = message;
      return;
    }
    this.#streams.delete(message.id);
    this.#send(message);
  }

  /** The API process has taken `deltas` deltas of the stream. */
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

  /** Forgets the stream: nothing more is sent of it. */
  drop(id: string): void {
    this.#streams.delete(id);
  }

  /** Whether the delta may be sent now; otherwise it waits. */
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
