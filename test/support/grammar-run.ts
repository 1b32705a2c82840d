/** Grammar threads beside matchers, as the engine has them, for tests that pick tokens themselves. */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { SidaError } from '../../src/errors.js';
import type { Grammar, PreparedGrammar } from '../../src/structured-output/grammar.js';
import type { GrammarThreads, GrammarThreadsOptions } from '../../src/structured-output/grammar-threads.js';
import type { Matcher, Matchers } from '../../src/structured-output/matchers.js';
import { byteTokenizer } from './byte-tokenizer.js';
import { DIST } from './sida-process.js';

export const END = 2;
export const VOCAB = 320;
const FIRST_BYTE = 64;
const ANSWER_MS = 20_000;

export interface GrammarRun {
  threads: GrammarThreads;
  matchers: Matchers;
  /** Times that a thread was connected. */
  connected: number[];
  prepare(grammar: Grammar, param?: string, owner?: string): Promise<PreparedGrammar | SidaError>;
  /** A matcher whose thread is ready. */
  open(grammar: Grammar, item?: number): Promise<Matcher>;
}

export async function grammarRun(
  options: Partial<Omit<GrammarThreadsOptions, 'data'>> & {
    tokenizer?: object;
    data?: Partial<GrammarThreadsOptions['data']>;
  } = {},
): Promise<GrammarRun> {
  const load = async (path: string) => import(pathToFileURL(join(DIST, path)).href);
  const { GrammarThreads: Threads } = (await load('structured-output/grammar-threads.js')) as {
    GrammarThreads: typeof GrammarThreads;
  };
  const { Matchers: Table } = (await load('structured-output/matchers.js')) as { Matchers: typeof Matchers };
  const { tokenizer = byteTokenizer(END), data: given, ...rest } = options;
  const text = Buffer.from(JSON.stringify(tokenizer));
  const json = new Uint8Array(new SharedArrayBuffer(text.length));
  json.set(text);
  const data = { json, vocabSize: VOCAB, endTokens: [END], controls: new Map<number, string>(), ...given };
  const matchers = new Table(data.vocabSize, (life) => threads.stuck(life));
  const connected: number[] = [];
  const threads: GrammarThreads = new Threads({
    data,
    connect: (life, port) => {
      connected.push(life.thread);
      matchers.connect(life, port);
    },
    ...rest,
  });
  const prepare = (grammar: Grammar, param = 'response_format', owner = '') =>
    new Promise<PreparedGrammar | SidaError>((resolve) => {
      threads.prepare({ grammar: JSON.stringify(grammar), owner, param }, resolve);
    });
  const open = async (grammar: Grammar, item = 0) => {
    const found = await prepare(grammar);
    if (!('thread' in found)) throw found;
    const work = { text: JSON.stringify(grammar), thread: found.thread, param: 'response_format' };
    const matcher = matchers.open(work, { item, job: item });
    found.release();
    return matcher;
  };
  return { threads, matchers, connected, prepare, open };
}

/** The allowed tokens, a bit each, until the next is taken. */
export function maskOf(matcher: Matcher): Uint32Array {
  matcher.wait(ANSWER_MS);
  const { bitmap } = matcher;
  if (!matcher.ready || bitmap === null) throw new Error('the matcher has no answer');
  return bitmap;
}

export function allows(mask: Uint32Array, id: number): boolean {
  return (mask[id >> 5]! & (1 << (id & 31))) !== 0;
}

/** The ids that a matcher allows. */
export function allowedOf(matcher: Matcher): number[] {
  const mask = maskOf(matcher);
  const ids: number[] = [];
  for (let id = 0; id < 32 * mask.length; id += 1) if (allows(mask, id)) ids.push(id);
  return ids;
}

export function bytesOf(text: string): number[] {
  return [...Buffer.from(text)].map((byte) => FIRST_BYTE + byte);
}

/** Draws tokens until the end, or at most so many. Returns null for a text that did not end. */
export function randomText(matcher: Matcher, random: () => number, most = 800): string | null {
  const ids: number[] = [];
  const closing = [END, ...bytesOf('}]"bx')];
  while (ids.length < most) {
    const allowed = allowedOf(matcher);
    // Otherwise most strings are hundreds of characters long, and lists of lists grow faster than they end.
    const ends = closing.filter((id) => allowed.includes(id));
    const from = ends.length > 0 && random() < 0.5 ? ends : allowed;
    const id = from[Math.floor(random() * from.length)]!;
    matcher.take(id);
    if (id === END) return Buffer.from(ids.map((each) => each - FIRST_BYTE)).toString();
    ids.push(id);
  }
  return null;
}

/** Fractions from 0 to 1. */
export function randomNumbers(seed: number): () => number {
  let state = Math.imul(seed, 0x9e3779b1);
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state >>> 8) / 2 ** 24;
  };
}
