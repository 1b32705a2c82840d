/**
 * The bounded queue between the hash-building thread (one producer) and the inference thread (one consumer). The
 * message travels by MessagePort and names the payload; tokens and tables lie in SharedArrayBuffers and are not
 * copied. The main thread keeps the bound by the shared counters; wake-ups end the sleep of the inference thread and
 * of the main thread.
 */
import { MessageChannel, type MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import { WakeUp } from './wake-up.js';

const PUT = 0;
const TAKEN = 1;
const IDLE = 2;

/** One end of a queue, ready to be sent to its thread (`port` goes into the transfer list). */
export interface QueueEnd {
  port: MessagePort;
  counters: SharedArrayBuffer;
  /** Signalled for the consumer when an entry was put. Other senders may signal it too. */
  arrivals: SharedArrayBuffer;
  /** Signalled for the main thread when an entry was taken, or the consumer has nothing to do. */
  departures: SharedArrayBuffer;
  /** Most entries between the two threads: the look-ahead. */
  capacity: number;
}

export function createQueue(capacity: number): { producer: QueueEnd; consumer: QueueEnd } {
  const { port1, port2 } = new MessageChannel();
  const shared = {
    counters: new SharedArrayBuffer(12),
    arrivals: new WakeUp().buffer,
    departures: new WakeUp().buffer,
    capacity,
  };
  return { producer: { ...shared, port: port1 }, consumer: { ...shared, port: port2 } };
}

function lengthOf(counters: Int32Array): number {
  // Both counters wrap at 2^32; their difference does not.
  return (Atomics.load(counters, PUT) - Atomics.load(counters, TAKEN)) | 0;
}

export class QueueProducer<T> {
  /** Wakes the consumer. */
  readonly arrivals: WakeUp;
  readonly #end: QueueEnd;
  readonly #counters: Int32Array;

  constructor(end: QueueEnd) {
    this.#end = end;
    this.#counters = new Int32Array(end.counters);
    this.arrivals = new WakeUp(end.arrivals);
  }

  /** Does not block. There must be room: the main thread checks that with a QueueGauge. */
  put(entry: T): void {
    const length = lengthOf(this.#counters);
    const { capacity } = this.#end;
    if (length >= capacity) throw new Error(`The queue holds ${length} of ${capacity}. This is a bug.`);
    this.#end.port.postMessage(entry);
    Atomics.add(this.#counters, PUT, 1);
    this.arrivals.signal();
  }
}

/** The main thread's view of the queue. */
export class QueueGauge {
  /** Signalled when an entry was taken, and when the consumer has nothing to do. */
  readonly departures: WakeUp;
  readonly capacity: number;
  readonly #counters: Int32Array;

  constructor({ counters, departures, capacity }: Pick<QueueEnd, 'counters' | 'departures' | 'capacity'>) {
    this.#counters = new Int32Array(counters);
    this.departures = new WakeUp(departures);
    this.capacity = capacity;
  }

  /** Entries taken so far, modulo 2^32. */
  get taken(): number {
    return Atomics.load(this.#counters, TAKEN);
  }

  /** The consumer has nothing to do. */
  get consumerIdle(): boolean {
    return Atomics.load(this.#counters, IDLE) === 1;
  }
}

export class QueueConsumer<T> {
  /** Signalled when an entry arrives, and by other senders that wake this thread. */
  readonly arrivals: WakeUp;
  readonly #end: QueueEnd;
  readonly #counters: Int32Array;
  readonly #departures: WakeUp;
  /** Received from the port and not taken. */
  readonly #waiting: T[] = [];

  constructor(end: QueueEnd) {
    this.#end = end;
    this.#counters = new Int32Array(end.counters);
    this.arrivals = new WakeUp(end.arrivals);
    this.#departures = new WakeUp(end.departures);
  }

  /** Entries put and not taken. */
  get length(): number {
    return lengthOf(this.#counters);
  }

  /** Tells whether this thread has nothing to do. */
  set idle(idle: boolean) {
    Atomics.store(this.#counters, IDLE, idle ? 1 : 0);
    if (idle) this.#departures.signal();
  }

  /** Entries put and not taken, oldest first; they keep their place in the bound. Does not block. */
  waiting(): readonly T[] {
    // The counter is the truth: an entry is posted before it is counted, and must not be seen in between.
    while (this.#waiting.length < this.length) {
      const received = receiveMessageOnPort(this.#end.port) as { message: T };
      this.#waiting.push(received.message);
    }
    return this.#waiting;
  }

  /** The oldest entry, undefined when there is none. Does not block. */
  tryTake(): T | undefined {
    if (this.waiting().length === 0) return undefined;
    const entry = this.#waiting.shift()!;
    Atomics.add(this.#counters, TAKEN, 1);
    this.#departures.signal();
    return entry;
  }
}
