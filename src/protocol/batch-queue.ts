/**
 * The bounded queue from the main thread (the producer) to the inference thread (the consumer). Entries travel through
 * a MessagePort; their tokens and tables are in SharedArrayBuffers and are not copied. The main thread keeps the bound
 * by reading shared counters. Wake-ups signal both threads.
 */
import { MessageChannel, type MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import { WakeUp } from './wake-up.js';

const PUT = 0;
const TAKEN = 1;
const IDLE = 2;
const BLOCKED = 3;
/** Entries beyond the capacity, for owners that would otherwise wait behind all others. */
const NEWCOMERS = 4;

/** One end of a queue, for transfer to its thread. Its ports must be in the transfer list. */
export interface QueueEnd {
  port: MessagePort;
  counters: SharedArrayBuffer;
  /** Signalled to the consumer when an entry is put. Other threads may signal it too. */
  arrivals: SharedArrayBuffer;
  /** Signalled to the main thread when an entry is taken or the consumer becomes idle or blocked. */
  departures: SharedArrayBuffer;
  /** Entries between the two threads. A few more are for new owners. */
  capacity: number;
}

export function createQueue(capacity: number): { producer: QueueEnd; consumer: QueueEnd } {
  const { port1, port2 } = new MessageChannel();
  const shared = {
    counters: new SharedArrayBuffer(16),
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
  readonly #end: QueueEnd;
  readonly #counters: Int32Array;
  readonly #arrivals: WakeUp;

  constructor(end: QueueEnd) {
    this.#end = end;
    this.#counters = new Int32Array(end.counters);
    this.#arrivals = new WakeUp(end.arrivals);
  }

  /** Does not block. Throws if the queue is full; the main thread checks for room with a QueueGauge. */
  put(entry: T): void {
    const length = lengthOf(this.#counters);
    const capacity = this.#end.capacity + NEWCOMERS;
    if (length >= capacity) throw new Error(`The queue holds ${length} of ${capacity}. This is a bug.`);
    this.#end.port.postMessage(entry);
    Atomics.add(this.#counters, PUT, 1);
    this.#arrivals.signal();
  }
}

/** The main thread's view of the queue. */
export class QueueGauge {
  /** Signalled when an entry is taken, and when the consumer becomes idle or blocked. */
  readonly departures: WakeUp;
  readonly capacity: number;
  /** Including places for entries of new owners. */
  readonly mostCapacity: number;
  readonly #counters: Int32Array;

  constructor({ counters, departures, capacity }: Pick<QueueEnd, 'counters' | 'departures' | 'capacity'>) {
    this.#counters = new Int32Array(counters);
    this.departures = new WakeUp(departures);
    this.capacity = capacity;
    this.mostCapacity = capacity + NEWCOMERS;
  }

  /** Entries taken so far, modulo 2^32. */
  get taken(): number {
    return Atomics.load(this.#counters, TAKEN);
  }

  /** Whether the consumer has nothing to do. */
  get consumerIdle(): boolean {
    return Atomics.load(this.#counters, IDLE) === 1;
  }

  /** Whether the consumer's next input lacks KV pages, so that it takes entries of new owners only. */
  get consumerBlocked(): boolean {
    return Atomics.load(this.#counters, BLOCKED) === 1;
  }
}

export class QueueConsumer<T> {
  /** Signalled when an entry arrives, and by other threads that wake this one. */
  readonly arrivals: WakeUp;
  readonly #end: QueueEnd;
  readonly #counters: Int32Array;
  readonly #departures: WakeUp;
  /** Entries received from the port and not taken yet. */
  readonly #waiting: T[] = [];

  constructor(end: QueueEnd) {
    this.#end = end;
    this.#counters = new Int32Array(end.counters);
    this.arrivals = new WakeUp(end.arrivals);
    this.#departures = new WakeUp(end.departures);
  }

  /** Number of entries that were put and not taken. */
  get length(): number {
    return lengthOf(this.#counters);
  }

  /** Publishes whether this thread has nothing to do. */
  set idle(idle: boolean) {
    Atomics.store(this.#counters, IDLE, idle ? 1 : 0);
    if (idle) this.#departures.signal();
  }

  /** Publishes whether the next input lacks KV pages. */
  set blocked(blocked: boolean) {
    const value = blocked ? 1 : 0;
    if (Atomics.exchange(this.#counters, BLOCKED, value) !== value && blocked) this.#departures.signal();
  }

  /** Entries that were put and not taken, oldest first. They still count toward the capacity. Does not block. */
  waiting(): readonly T[] {
    // Trust the counter: the producer posts an entry before counting it, and an uncounted entry must not be visible.
    while (this.#waiting.length < this.length) {
      this.#waiting.push((receiveMessageOnPort(this.#end.port) as { message: T }).message);
    }
    return this.#waiting;
  }

  /** Takes the oldest entry, or returns undefined if there is none. Does not block. */
  tryTake(): T | undefined {
    if (this.waiting().length === 0) return undefined;
    const entry = this.#waiting.shift()!;
    Atomics.add(this.#counters, TAKEN, 1);
    this.#departures.signal();
    return entry;
  }
}
