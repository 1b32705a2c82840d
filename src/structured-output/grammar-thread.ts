/** Thread entry: compiles grammars and answers which tokens they allow, one message after the other. */
import { readlinkSync } from 'node:fs';
import { basename } from 'node:path';
import { parentPort, workerData } from 'node:worker_threads';
import { SidaError } from '../errors.js';
import type {
  FromGrammarThread,
  GrammarThreadData,
  ToGrammarThread,
  ToMatchers,
} from '../protocol/grammar-messages.js';
import { Detokenizer } from '../text/detokenizer.js';
import { readTokenizerFile } from '../text/tokenizing/tokenizer-file.js';
import { MatcherTable } from './matcher-table.js';
import { grammarVocabulary } from './token-texts.js';
import { GrammarLibrary } from './xgrammar.js';

const port = parentPort!;
const { json, vocabSize, endTokens, controls, memoryBytes, matchers } = workerData as GrammarThreadData;

function send(message: FromGrammarThread): void {
  port.postMessage(message);
}

interface Opened {
  library: GrammarLibrary;
  table: MatcherTable;
}

async function open(): Promise<Opened> {
  const file = readTokenizerFile(Buffer.from(json.buffer, json.byteOffset, json.byteLength));
  const vocabulary = grammarVocabulary({ file, texts: new Detokenizer(file), vocabSize, controls });
  const library = await GrammarLibrary.open({ vocabulary, endTokens, memoryBytes });
  return { library, table: new MatcherTable({ library, vocabSize }) };
}

/** Messages run one after the other, although some of the library's functions are asynchronous. */
let last: Promise<void> = Promise.resolve();
let broken = false;

/** The library is not to be trusted after an error: whoever started this thread replaces it. */
function inTurn(compiling: boolean, run: () => Promise<void>): void {
  last = last.then(async () => {
    if (broken) return;
    try {
      await run();
    } catch (error) {
      broken = true;
      send({ type: 'broken', reason: (error as Error).message, compiling });
    }
  });
}

async function compile({ library, table }: Opened, grammar: string): Promise<void> {
  send({ type: 'compiling' });
  const refused = await table.prepare(grammar);
  if (refused === '') send({ type: 'compiled', bytes: library.bytes });
  else send({ type: 'refused', reason: refused });
}

/** The system's number of this thread; empty where it has none. */
function systemId(): string {
  try {
    return basename(readlinkSync('/proc/thread-self'));
  } catch {
    return '';
  }
}

try {
  const opened = await open();
  matchers.on('message', (message: ToMatchers) => inTurn(false, () => opened.table.handle(message)));
  port.on('message', ({ grammar }: ToGrammarThread) => inTurn(true, () => compile(opened, grammar)));
  send({ type: 'opened', systemId: systemId() });
} catch (error) {
  send({ type: 'failed', error: SidaError.from(error).toBody() });
}
