/**
 * Opens @mlc-ai/web-xgrammar, which is WebAssembly. It needs a thread of its own: it is a script that takes `require`
 * from the global object, and an error in it ends in an abort that may leave its memory in any state.
 */
import { createRequire } from 'node:module';
import type * as Library from '@mlc-ai/web-xgrammar';
import type { StructuralTagFormat } from '@mlc-ai/web-xgrammar';
import type { Grammar, GrammarMatcher } from './grammar.js';
import { type LongTexts, noLongTexts } from './json-strings.js';
import { BYTE_END, BYTE_VOCABULARY, type BytesMatcher, LongTextMatcher, TokenBytes } from './long-texts.js';
import { structuralTag } from './structural-tag.js';

/** Bytes of a page of WebAssembly memory. */
const PAGE = 65_536;

/** The reason why a grammar was not compiled. The library must not be used any more. */
export class GrammarFault extends Error {}

/** The reason why no grammar can follow a schema. The library can be used further. */
export class RefusedGrammar extends Error {}

export interface CompiledGrammar {
  matcher(): GrammarMatcher;
  /** Frees it. Its matchers go on. */
  close(): void;
}

interface OpenOptions {
  vocabulary: string[];
  endTokens: readonly number[];
  /** Most bytes of WebAssembly memory. */
  memoryBytes: number;
}

/** Handles of the library's binding, which its declarations leave untyped. */
interface MatcherHandle {
  AcceptToken(token: number, verbose: boolean): boolean;
  IsTerminated(): boolean;
  Rollback(tokens: number): void;
  delete(): void;
}
type MatcherClass = new (
  compiled: unknown,
  stops: undefined,
  withoutStop: boolean,
  rollback: number,
) => MatcherHandle;
type WrappedMatcher = Pick<Library.GrammarMatcher, 'getNextTokenBitmask'>;

/** What the library opened for a vocabulary. */
interface Vocabulary {
  compiler: Library.GrammarCompiler;
  size: number;
}

/** A compiled grammar of the library, which makes matchers. */
interface Compiled {
  matcher(): BytesMatcher;
  close(): void;
}

export class GrammarLibrary {
  readonly #library: typeof Library;
  readonly #vocabulary: Vocabulary;
  readonly #bytes: Vocabulary;
  readonly #tokens: () => TokenBytes;
  readonly #watch: { memory: () => number; lastError: () => string };
  #matcherClass: MatcherClass | undefined;

  private constructor(
    library: typeof Library,
    [vocabulary, bytes]: readonly [Vocabulary, Vocabulary],
    tokens: () => TokenBytes,
    watch: { memory: () => number; lastError: () => string },
  ) {
    this.#library = library;
    this.#vocabulary = vocabulary;
    this.#bytes = bytes;
    this.#tokens = tokens;
    this.#watch = watch;
  }

  static async open({ vocabulary, endTokens, memoryBytes }: OpenOptions): Promise<GrammarLibrary> {
    const watch = watchLibrary(memoryBytes);
    const library = await loadLibrary();
    const opened = async (tokens: readonly string[], ends: readonly number[]): Promise<Vocabulary> => {
      const { TokenizerInfo } = library;
      const size = tokens.length;
      const info = await TokenizerInfo.createTokenizerInfo([...tokens], 'byte_level', false, size, [...ends]);
      // Its own cache has no bound.
      const compiler = await library.GrammarCompiler.createGrammarCompiler(info, false);
      return { compiler, size };
    };
    let tokens: TokenBytes | undefined;
    const tokenBytes = () => {
      tokens ??= new TokenBytes(vocabulary);
      return tokens;
    };
    const both = [await opened(vocabulary, endTokens), await opened(BYTE_VOCABULARY, [BYTE_END])] as const;
    return new GrammarLibrary(library, both, tokenBytes, watch);
  }

  /** Bytes of WebAssembly memory, which never shrinks. */
  get bytes(): number {
    return this.#watch.memory();
  }

  /** Throws a GrammarFault or a RefusedGrammar. */
  async compile(grammar: Grammar): Promise<CompiledGrammar> {
    const long = noLongTexts();
    const own = await this.#compile(grammar, long, this.#vocabulary);
    if (!long.some) return own;
    const exact = await this.#compile(grammar, { ...long, counts: true }, this.#bytes);
    const tokens = this.#tokens();
    return {
      matcher: () => new LongTextMatcher(own.matcher(), exact.matcher(), tokens, long),
      close: () => {
        own.close();
        exact.close();
      },
    };
  }

  async #compile(grammar: Grammar, long: LongTexts, { compiler, size }: Vocabulary): Promise<Compiled> {
    const tag = await this.#tagOf(grammar, long);
    try {
      const rules = await this.#library.Grammar.fromStructuralTag(tag);
      const compiled = await compiler.compileGrammar(rules);
      rules.dispose();
      this.#matcherClass ??= await this.#classOf(compiled);
      return { matcher: () => this.#matcher(compiled, size), close: () => compiled.dispose() };
    } catch (error) {
      throw this.#fault(error);
    }
  }

  async #tagOf(grammar: Grammar, long: LongTexts): Promise<StructuralTagFormat> {
    const { _jsonSchemaToEBNF: write } = this.#library.Testings;
    const written = async (schema: string) => {
      try {
        // On one line, with the usual separators; the schema says itself which objects are closed.
        return await write(schema, false, -1, undefined, false);
      } catch (error) {
        throw this.#fault(error);
      }
    };
    try {
      return await structuralTag(grammar, written, long);
    } catch (error) {
      if (error instanceof GrammarFault) throw error;
      throw new RefusedGrammar((error as Error).message, { cause: error });
    }
  }

  #fault(error: unknown): GrammarFault {
    return new GrammarFault(this.#watch.lastError() || (error as Error).message, { cause: error });
  }

  /** The class of matchers' handles. The library's own constructor leaks a handle each time. */
  async #classOf(compiled: Library.CompiledGrammar): Promise<MatcherClass> {
    const matcher = await this.#library.GrammarMatcher.createGrammarMatcher(compiled);
    matcher.dispose();
    return (matcher as unknown as { handle: { constructor: MatcherClass } }).handle.constructor;
  }

  #matcher(compiled: Library.CompiledGrammar, size: number): BytesMatcher {
    const handle = new this.#matcherClass!(compiled.handle, undefined, false, -1);
    const Wrapper = this.#library.GrammarMatcher as unknown as new (
      handle: unknown,
      size: number,
    ) => WrappedMatcher;
    const wrapped = new Wrapper(handle, size);
    return {
      accept: (token) => handle.AcceptToken(token, false),
      goBack: (tokens) => handle.Rollback(tokens),
      get ended() {
        return handle.IsTerminated();
      },
      allowed: () => wrapped.getNextTokenBitmask(),
      close: () => handle.delete(),
    };
  }
}

async function loadLibrary(): Promise<typeof Library> {
  const require = createRequire(import.meta.url);
  const global = globalThis as unknown as Record<string, unknown>;
  global.require = require;
  global.__filename = require.resolve('@mlc-ai/web-xgrammar');
  await import('@mlc-ai/web-xgrammar');
  return global.xgrammar as typeof Library;
}

interface WasmMemory {
  readonly buffer: ArrayBuffer;
  grow(this: WasmMemory, pages: number): number;
}

/** What is used of it; the compiler does not know it without the declarations of browsers. */
interface Wasm {
  instantiate(...given: unknown[]): Promise<{ instance: { exports: Record<string, unknown> } }>;
  Memory: { prototype: WasmMemory; new (...given: unknown[]): WasmMemory };
}

/** Bounds the library's memory, and keeps the reason that it writes before it aborts. */
function watchLibrary(memoryBytes: number): { memory: () => number; lastError: () => string } {
  const wasm = (globalThis as unknown as { WebAssembly: Wasm }).WebAssembly;
  let memory: WasmMemory | undefined;
  let error = '';
  const { instantiate } = wasm;
  wasm.instantiate = async (...given) => {
    const made = await instantiate(...given);
    memory = Object.values(made.instance.exports).find((each) => each instanceof wasm.Memory);
    return made;
  };
  const { grow } = wasm.Memory.prototype;
  wasm.Memory.prototype.grow = function (pages) {
    if (this.buffer.byteLength + pages * PAGE <= memoryBytes) return grow.call(this, pages);
    error = `it needs more than ${memoryBytes} bytes of memory`;
    throw new RangeError(error);
  };
  console.error = (text: unknown) => {
    const found = /^\[FATAL\] \S+ (.*)$/s.exec(String(text))?.[1];
    if (found !== undefined) error = found;
  };
  return { memory: () => memory?.buffer.byteLength ?? 0, lastError: () => error };
}
