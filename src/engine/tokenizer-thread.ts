/** Thread entry: encodes texts and decodes ids until the process ends. */
import { parentPort, workerData } from 'node:worker_threads';
import { clockMs } from '../clock.js';
import { SidaError } from '../errors.js';
import { loadAddon } from '../native/addon.js';
import { profiled, recordThread } from '../profile/thread-events.js';
import { RunningText } from '../protocol/running-text.js';
import type {
  FromTokenizer,
  IdsToDecode,
  TextToEncode,
  TokenizerThreadData,
  ToTokenizer,
} from '../protocol/tokenizer-messages.js';
import { ChatEncoder } from '../text/chat/chat-encoder.js';
import { controlTokens } from '../text/chat/control-tokens.js';
import { oneLine } from '../text/one-line.js';
import { checkAnswerBytes } from '../text/text-bytes.js';
import { Tokenizer } from '../text/tokenizer.js';
import { readTokenizerFile } from '../text/tokenizing/tokenizer-file.js';

const port = parentPort!;
const { json, limits, running: buffer, chat: templates } = workerData as TokenizerThreadData;
const running = new RunningText(buffer);

function send(message: FromTokenizer): void {
  port.postMessage(message);
}

function run({ turn, texts }: ToTokenizer): void {
  const begin = clockMs();
  const results = profiled('tokenize', () =>
    texts.map((work, index) => {
      running.set(turn, index);
      try {
        return 'ids' in work ? decode(work) : encode(work);
      } catch (error) {
        return failure(error).toBody();
      }
    }),
  );
  const found = results.map((each) => (Array.isArray(each) ? each.length : each));
  const ids = joined(results.filter((each) => Array.isArray(each)));
  send({ type: 'encoded', turn, ids, found, seconds: (clockMs() - begin) / 1000 });
}

/** The model's files are the cause of an error that is not typed: a normalizer may lengthen a text without bound. */
function failure(error: unknown): SidaError {
  if (error instanceof SidaError) return error;
  const message = `The tokenizer failed: ${oneLine((error as Error).message)}`;
  return new SidaError({ code: 'cannot_run', message }, { cause: error });
}

function decode({ ids, skipSpecial }: IdsToDecode): string {
  const text = opened!.tokenizer.decode(ids, skipSpecial);
  checkAnswerBytes(Buffer.byteLength(text));
  return text;
}

/** In shared memory, from which passes read them. */
function joined(found: readonly number[][]): Int32Array {
  const count = found.reduce((sum, { length }) => sum + length, 0);
  const ids = new Int32Array(new SharedArrayBuffer(4 * count));
  let at = 0;
  for (const each of found) {
    // A tokenizer without an unknown token has no id for some texts.
    for (const id of each) ids[at++] = id ?? -1;
  }
  return ids;
}

function encode({ text, special, chat }: TextToEncode): number[] {
  const { tokenizer, chats } = opened!;
  if (!chat) return special ? tokenizer.encode(text) : tokenizer.encodePlain(text);
  if (chats !== undefined) return chats.encode(text);
  throw new SidaError({
    code: 'invalid_request',
    message: 'This model has no chat template',
    param: 'messages',
  });
}

function open(): { tokenizer: Tokenizer; chats: ChatEncoder | undefined } | undefined {
  try {
    const file = readTokenizerFile(Buffer.from(json.buffer, json.byteOffset, json.byteLength));
    const tokenizer = new Tokenizer(file, limits);
    if (templates === undefined) return { tokenizer, chats: undefined };
    const controls = controlTokens(file, templates);
    return { tokenizer, chats: new ChatEncoder(tokenizer, controls, templates) };
  } catch (error) {
    send({ type: 'failed', error: SidaError.from(error).toBody() });
    return undefined;
  }
}

recordThread(loadAddon().profile, 'tokenizer');
const opened = open();
if (opened !== undefined) {
  port.on('message', run);
  send({ type: 'opened' });
}
