/**
 * The main thread's end of the tokenizer thread. Short texts pass long ones. A thread that needs too long for a text is
 * ended: the text is refused, and a new thread takes up the others.
 */
import type { Worker } from 'node:worker_threads';
import { SidaError } from '../errors.js';
import type { RunningText } from '../protocol/running-text.js';
import type {
  FromTokenizer,
  IdsToDecode,
  TextToEncode,
  TokenizerFigures,
  TokenizerThreadData,
  ToTokenizer,
} from '../protocol/tokenizer-messages.js';
import { type ModelChat, modelChat } from '../text/chat/answer-format.js';
import type { ChatTemplates } from '../text/chat/template-files.js';
import { Detokenizer } from '../text/detokenizer.js';
import type { TokenizerLimits } from '../text/tokenizer.js';
import { parseCheckedFile } from '../text/tokenizing/tokenizer-file.js';
import { opened, type StartedThread, startThread } from './start-tokenizer.js';
import { TextQueue, type WaitingText } from './text-queue.js';

/** Gives the ids of texts, and the texts of ids. */
export interface Encoder {
  /**
   * Calls `done` once, with the ids of each text or with the reason why one has none. The function that it returns
   * cancels: `done` is then not called.
   */
  encode(texts: readonly TextToEncode[], done: (found: Int32Array[] | SidaError) => void): () => void;
  /** The same for lists of ids. */
  decode(lists: readonly IdsToDecode[], done: (found: string[] | SidaError) => void): () => void;
}

/** What an id counts in place of its text, which is not known. */
const ID_BYTES = 4;
/** Bytes of a short text, and of all texts that the thread takes at once: about a millisecond of work. */
const SHORT_BYTES = 4096;
/** Time between two looks at the thread. */
const LOOK_MS = 100;
/** Time that a text may take: a hundred times what it usually needs, on a busy machine too. */
const TEXT_MS = 1_000;
const TEXT_MS_PER_KIB = 20;

interface Request {
  /** The ids of each text, or the text of each list of ids. */
  found: (Int32Array | string)[];
  missing: number;
  done: (found: never[] | SidaError) => void;
}

type Text = WaitingText<Request>;

/** Short or long texts: one turn of each may be with the thread. */
interface Lane {
  long: boolean;
  waiting: TextQueue<Request>;
  /** Long texts wait for its end. */
  rest: NodeJS.Timeout | undefined;
  turn: { id: number; texts: Text[] /** Looks that found each text running. */; looks: number[] } | undefined;
}

export class TokenizerLink implements Encoder {
  /** What is needed to turn ids into text. It stays on this thread. */
  readonly texts: Detokenizer;
  /** Undefined if the model has no chat template. */
  readonly chat: ModelChat | undefined;
  readonly #data: Omit<TokenizerThreadData, 'running'>;
  readonly #onFailure: (error: Error) => void;
  readonly #lanes: readonly Lane[] = [false, true].map((long) => ({
    long,
    waiting: new TextQueue<Request>(),
    rest: undefined,
    turn: undefined,
  }));
  /** Short texts since the last long turn began. */
  #shorts = 0;
  /** Turns of one text that follow: what waited while a thread was ended waits for no other text of its turn. */
  #single = 0;
  #worker: Worker;
  #ready = true;
  #running: RunningText;
  #nextTurn = 1;
  #looks: NodeJS.Timeout | undefined;
  #seconds = 0;
  #ended = 0;

  private constructor(
    { texts, chat }: { texts: Detokenizer; chat: ModelChat | undefined },
    data: Omit<TokenizerThreadData, 'running'>,
    { worker, running }: StartedThread,
    onFailure: (error: Error) => void,
  ) {
    this.texts = texts;
    this.chat = chat;
    this.#data = data;
    this.#worker = worker;
    this.#running = running;
    this.#onFailure = onFailure;
    this.#listen();
  }

  /**
   * `json` is a tokenizer.json, `templates` are the model's chat templates, if it has any. Rejects with
   * checkpoint_invalid when the tokenizer cannot serve the model. `onFailure` is told when the thread ends and no text
   * is the cause.
   */
  static async open(
    json: Buffer,
    limits: TokenizerLimits,
    onFailure: (error: Error) => void,
    templates?: ChatTemplates,
  ): Promise<TokenizerLink> {
    const data = { json: inSharedMemory(json), limits, chat: templates };
    const thread = startThread(data);
    await opened(thread.worker);
    const file = parseCheckedFile(json);
    const texts = new Detokenizer(file);
    const chat = templates && modelChat(templates, file);
    return new TokenizerLink({ texts, chat }, data, thread, onFailure);
  }

  get figures(): TokenizerFigures {
    const sum = (of: (queue: TextQueue<Request>) => number) =>
      this.#lanes.reduce((total, { waiting }) => total + of(waiting), 0);
    return {
      waiting: sum(({ size }) => size),
      waitingBytes: sum(({ bytes }) => bytes),
      seconds: this.#seconds,
      ended: this.#ended,
    };
  }

  /** The bytes of tokenizer.json, in shared memory. */
  get json(): Uint8Array {
    return this.#data.json;
  }

  encode(texts: readonly TextToEncode[], done: (found: Int32Array[] | SidaError) => void): () => void {
    return this.#add(texts, done);
  }

  decode(lists: readonly IdsToDecode[], done: (found: string[] | SidaError) => void): () => void {
    return this.#add(lists, done);
  }

  #add(works: readonly (TextToEncode | IdsToDecode)[], done: Request['done']): () => void {
    const request: Request = { found: new Array(works.length), missing: works.length, done };
    for (const [index, work] of works.entries()) {
      const bytes = 'ids' in work ? ID_BYTES * work.ids.length : Buffer.byteLength(work.text);
      this.#laneOf(bytes).waiting.add({ work, owner: request, index, bytes });
    }
    this.#pump();
    return () => this.#drop(request);
  }

  async close(): Promise<void> {
    clearInterval(this.#looks);
    for (const { rest } of this.#lanes) clearTimeout(rest);
    this.#worker.removeAllListeners();
    await this.#worker.terminate();
  }

  #laneOf(bytes: number): Lane {
    return this.#lanes.find(({ long }) => long === bytes > SHORT_BYTES)!;
  }

  #drop(request: Request): void {
    request.missing = 0;
    for (const { waiting } of this.#lanes) waiting.remove(request);
  }

  /** Gives each lane without a turn its next one. */
  #pump(): void {
    if (!this.#ready) return;
    for (const lane of this.#lanes) {
      if (lane.turn !== undefined || lane.rest !== undefined || lane.waiting.size === 0) continue;
      const texts = lane.waiting.take(lane.long || this.#single > 0 ? 0 : SHORT_BYTES);
      if (!lane.long && this.#single > 0) this.#single -= 1;
      this.#shorts = lane.long ? 0 : this.#shorts + texts.length;
      const id = this.#nextTurn++;
      lane.turn = { id, texts, looks: texts.map(() => 0) };
      const works = texts.map(({ work }) => work);
      this.#worker.postMessage({ turn: id, texts: works } satisfies ToTokenizer);
    }
    const busy = this.#lanes.some(({ turn }) => turn !== undefined);
    if (!busy) {
      clearInterval(this.#looks);
      this.#looks = undefined;
    } else {
      this.#looks ??= setInterval(() => this.#look(), LOOK_MS);
    }
  }

  #listen(): void {
    this.#worker.on('message', (message: FromTokenizer) => {
      if (message.type === 'encoded') this.#onEncoded(message);
    });
    this.#worker.on('error', (error) => {
      // Memory ran out, for example. The text that was being encoded is the likely cause.
      const text = this.#current();
      if (text === undefined) this.#onFailure(error as Error);
      else this.#replace(text, failed(text, error as Error));
    });
  }

  #onEncoded({ turn, ids, found, seconds }: Extract<FromTokenizer, { type: 'encoded' }>): void {
    this.#seconds += seconds;
    const lane = this.#lanes.find((each) => each.turn?.id === turn)!;
    const { texts } = lane.turn!;
    lane.turn = undefined;
    if (lane.long && this.#shorts > 0) this.#rest(lane, seconds * 1_000);
    let begin = 0;
    for (const [at, each] of found.entries()) {
      if (typeof each === 'number') {
        this.#take(texts[at]!, ids.subarray(begin, begin + each));
        begin += each;
      } else if (typeof each === 'string') {
        this.#take(texts[at]!, each);
      } else {
        this.#refuse(texts[at]!, new SidaError(each));
      }
    }
    this.#pump();
  }

  /** Beside short texts, long ones take half of the thread's time: a core of two is much to lose for the passes. */
  #rest(lane: Lane, ms: number): void {
    lane.rest = setTimeout(() => {
      lane.rest = undefined;
      this.#pump();
    }, ms);
  }

  #take({ owner, index }: Text, found: Int32Array | string): void {
    if (owner.missing === 0) return;
    owner.found[index] = found;
    owner.missing -= 1;
    if (owner.missing === 0) owner.done(owner.found as never[]);
  }

  #refuse({ owner }: Text, error: SidaError): void {
    if (owner.missing === 0) return;
    this.#drop(owner);
    owner.done(error);
  }

  /** The text, or the list of ids, that the thread works on. */
  #current(): Text | undefined {
    const { turn, index } = this.#running.get();
    return this.#lanes.find((lane) => lane.turn?.id === turn)?.turn?.texts[index];
  }

  /** Counts looks, not time: after a freeze of this process, the thread gets the time that it has lost. */
  #look(): void {
    const { turn, index } = this.#running.get();
    const current = this.#lanes.find((lane) => lane.turn?.id === turn)?.turn;
    const text = current?.texts[index];
    if (current === undefined || text === undefined) return;
    current.looks[index]! += 1;
    const limit = TEXT_MS + Math.ceil((text.bytes / 1024) * TEXT_MS_PER_KIB);
    if (current.looks[index]! * LOOK_MS > limit) this.#replace(text, tooLong(text, limit));
  }

  #replace(culprit: Text, error: SidaError): void {
    this.#ready = false;
    this.#ended += 1;
    this.#worker.removeAllListeners();
    this.#worker.on('error', () => {});
    void this.#worker.terminate();
    for (const lane of this.#lanes) {
      for (const text of lane.turn?.texts ?? []) {
        if (text.owner.missing > 0 && text !== culprit) lane.waiting.add(text);
      }
      lane.turn = undefined;
    }
    this.#refuse(culprit, error);
    const { worker, running } = startThread(this.#data);
    this.#worker = worker;
    this.#running = running;
    opened(worker).then(
      () => {
        this.#ready = true;
        this.#single = this.#lanes.find(({ long }) => !long)!.waiting.size;
        this.#listen();
        this.#pump();
      },
      (reason: unknown) => this.#onFailure(reason as Error),
    );
  }
}

function tooLong({ bytes, work }: Text, limit: number): SidaError {
  const what =
    'chat' in work
      ? `A conversation of ${bytes} bytes took the model's chat template and the tokenizer`
      : `${named(work, bytes)} took the tokenizer`;
  return new SidaError({
    code: 'cannot_run',
    message: `${what} longer than ${limit} ms`,
    details: { bytes, limit_ms: limit },
  });
}

function named(work: TextToEncode | IdsToDecode, bytes: number): string {
  return 'ids' in work ? `A list of ${work.ids.length} ids` : `A text of ${bytes} bytes`;
}

function failed({ bytes, work }: Text, error: Error): SidaError {
  const message = `${named(work, bytes)} ended the tokenizer: ${error.message}`;
  return new SidaError({ code: 'cannot_run', message, details: { bytes } });
}

/** A file that was read is there; only one that was changed on the way is copied. */
function inSharedMemory(bytes: Buffer): Uint8Array {
  if (bytes.buffer instanceof SharedArrayBuffer) return bytes;
  const copy = new Uint8Array(new SharedArrayBuffer(bytes.length));
  copy.set(bytes);
  return copy;
}
