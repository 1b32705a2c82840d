/** Thread entry: encodes texts until the process ends, short ones in the pauses of a long one. */
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { clockMs } from '../clock.js';
import { SidaError } from '../errors.js';
import { loadAddon } from '../native/addon.js';
import { profiled, recordThread } from '../profile/thread-events.js';
import {
  type FromTokenizer,
  RunningText,
  type TokenizerThreadData,
  type ToTokenizer,
} from '../protocol/tokenizer-messages.js';
import { Tokenizer } from '../text/tokenizer.js';

const port = parentPort!;
const { json, limits, running: buffer } = workerData as TokenizerThreadData;
const running = new RunningText(buffer);
/** True while a long turn runs and no short one interrupts it. */
let interruptible = false;

function send(message: FromTokenizer, transfer: ArrayBuffer[] = []): void {
  port.postMessage(message, transfer);
}

/** Takes up one turn, so that the long one goes on after it. */
function pause(): void {
  if (!interruptible) return;
  const received = receiveMessageOnPort(port) as { message: ToTokenizer } | undefined;
  if (received === undefined) return;
  const { turn, index } = running.get();
  interruptible = false;
  run(received.message);
  interruptible = true;
  running.set(turn, index);
}

function run({ turn, long, texts }: ToTokenizer): void {
  const begin = clockMs();
  const found = profiled('tokenize', () =>
    texts.map(({ text, special }, index) => {
      running.set(turn, index);
      interruptible = long;
      try {
        return special ? tokenizer.encode(text) : tokenizer.encodePlain(text);
      } catch (error) {
        return SidaError.from(error).toBody();
      } finally {
        interruptible = false;
      }
    }),
  );
  // A tokenizer without an unknown token has no id for some texts.
  const ids = Int32Array.from(
    found.flatMap((each) => (Array.isArray(each) ? each : [])),
    (id) => id ?? -1,
  );
  const lengths = found.map((each) => (Array.isArray(each) ? each.length : each));
  send({ type: 'encoded', turn, ids, lengths, seconds: (clockMs() - begin) / 1000 }, [ids.buffer]);
}

function open(): Tokenizer | undefined {
  try {
    return new Tokenizer(Buffer.from(json), limits, pause);
  } catch (error) {
    send({ type: 'failed', error: SidaError.from(error).toBody() });
    return undefined;
  }
}

recordThread(loadAddon().profile, 'tokenizer');
const opened = open();
const tokenizer = opened!;
if (opened !== undefined) {
  port.on('message', run);
  send({ type: 'opened' });
}
