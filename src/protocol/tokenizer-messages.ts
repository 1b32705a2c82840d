/** All messages between the engine process's main thread and its tokenizer thread. */
import type { ErrorBody } from '../errors.js';
import type { ChatTemplates } from '../text/chat/template-files.js';
import type { TokenizerLimits } from '../text/tokenizer.js';

export interface TokenizerThreadData {
  /** The bytes of tokenizer.json, in shared memory. */
  json: Uint8Array;
  limits: TokenizerLimits;
  running: SharedArrayBuffer;
  /** Undefined if the model has no chat template. */
  chat: ChatTemplates | undefined;
}

export interface TextToEncode {
  text: string;
  /** Whether to add the model's special tokens, such as the final `</s>` of T5 and Switch. */
  special: boolean;
  /** The text is a `Conversation` in JSON, which the model's chat template renders. */
  chat?: true;
}

/** Token ids whose text is wanted. */
export interface IdsToDecode {
  ids: number[];
  skipSpecial: boolean;
}

/** Texts and lists of ids that the thread works on one after the other. */
export interface ToTokenizer {
  turn: number;
  texts: (TextToEncode | IdsToDecode)[];
}

export type FromTokenizer =
  | { type: 'opened' }
  /** The tokenizer cannot serve the model. */
  | { type: 'failed'; error: ErrorBody }
  | {
      type: 'encoded';
      turn: number;
      /** Ids of all texts, one after the other, in shared memory; -1 where the tokenizer has none. */
      ids: Int32Array;
      /** For each text: the number of its ids, or why there are none. For a list of ids: its text. */
      found: (number | string | ErrorBody)[];
      seconds: number;
    };

/** Work of the tokenizer thread, for metrics. */
export interface TokenizerFigures {
  /** Texts that wait, and their bytes. */
  waiting: number;
  waitingBytes: number;
  seconds: number;
  /** Threads that were ended because a text took too long. */
  ended: number;
}
