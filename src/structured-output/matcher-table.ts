/** The matchers of one grammar thread. Compiled grammars are kept for later ones. */
import { clockMs } from '../clock.js';
import type { ToMatchers } from '../protocol/grammar-messages.js';
import { TOKEN_MS } from '../protocol/grammar-messages.js';
import type { MatcherFault } from '../protocol/matcher-state.js';
import { MatcherState } from '../protocol/matcher-state.js';
import { CompiledCache } from './compiled-cache.js';
import type { Grammar, GrammarMatcher } from './grammar.js';
import { type CompiledGrammar, type GrammarLibrary, RefusedGrammar } from './xgrammar.js';

/** What a thread keeps of the last grammars. */
export const KEPT_GRAMMARS = { count: 32, bytes: 4 << 20 };

/** The library needed too long for one token. Unlike after other errors, it can be used further. */
class SlowGrammar extends Error {}

interface TableOptions {
  library: Pick<GrammarLibrary, 'compile'>;
  vocabSize: number;
  /** Most time of the library for one token. */
  tokenMs?: number;
}

interface OpenMatcher {
  matcher: GrammarMatcher;
  state: MatcherState;
  taken: number;
}

export class MatcherTable {
  readonly #library: Pick<GrammarLibrary, 'compile'>;
  readonly #vocabSize: number;
  readonly #tokenMs: number;
  readonly #compiled = new CompiledCache<CompiledGrammar>(KEPT_GRAMMARS, (compiled) => compiled.close());
  readonly #open = new Map<number, OpenMatcher>();

  constructor({ library, vocabSize, tokenMs = TOKEN_MS }: TableOptions) {
    this.#library = library;
    this.#vocabSize = vocabSize;
    this.#tokenMs = tokenMs;
  }

  get size(): number {
    return this.#open.size;
  }

  /** Compiles the grammar. Returns why it is refused; empty if it is not. Throws what the library throws. */
  async prepare(grammar: string): Promise<string> {
    try {
      return await this.#begins(await this.#compiledOf(grammar));
    } catch (error) {
      if (error instanceof RefusedGrammar) return error.message;
      throw error;
    }
  }

  async #compiledOf(grammar: string): Promise<CompiledGrammar> {
    const known = this.#compiled.get(grammar);
    if (known !== undefined) return known;
    const compiled = await this.#library.compile(JSON.parse(grammar) as Grammar);
    this.#compiled.set(grammar, compiled);
    return compiled;
  }

  /** Why no answer of the grammar can begin; empty if one can. */
  async #begins(compiled: CompiledGrammar): Promise<string> {
    const matcher = compiled.matcher();
    const begin = clockMs();
    try {
      const allowed = await matcher.allowed();
      if (clockMs() - begin > this.#tokenMs) return `its first token took longer than ${this.#tokenMs} ms`;
      return allowed.some((word) => word !== 0) ? '' : 'no token of the model begins such an answer';
    } finally {
      matcher.close();
    }
  }

  /** Throws what the library throws, which the matcher's state then tells, too. */
  async handle(message: ToMatchers): Promise<void> {
    if (message.type === 'open') await this.#begin(message);
    else if (message.type === 'take') await this.#take(message.id, [message.token]);
    else this.#close(message.id);
  }

  async #begin({ id, grammar, tokens, state: buffer }: Extract<ToMatchers, { type: 'open' }>): Promise<void> {
    const state = new MatcherState(this.#vocabSize, buffer);
    try {
      const matcher = (await this.#compiledOf(grammar)).matcher();
      this.#open.set(id, { matcher, state, taken: 0 });
    } catch (error) {
      state.answered(tokens.length, 'broken');
      throw error;
    }
    await this.#take(id, tokens);
  }

  async #take(id: number, tokens: readonly number[]): Promise<void> {
    const own = this.#open.get(id);
    if (own === undefined) return;
    own.taken += tokens.length;
    try {
      own.state.answered(own.taken, await this.#follow(own, tokens));
    } catch (error) {
      const slow = error instanceof SlowGrammar;
      own.state.answered(own.taken, slow ? 'slow' : 'broken');
      if (!slow) throw error;
    }
  }

  #close(id: number): void {
    this.#open.get(id)?.matcher.close();
    this.#open.delete(id);
  }

  async #follow({ matcher, state }: OpenMatcher, tokens: readonly number[]): Promise<MatcherFault> {
    for (const token of tokens) {
      if (!(await this.#timed(state, () => matcher.accept(token)))) return 'rejected';
    }
    if (matcher.ended) return '';
    const allowed = await this.#timed(state, () => matcher.allowed());
    state.allowed.set(new Uint32Array(allowed.buffer, allowed.byteOffset, allowed.length));
    return allowed.some((word) => word !== 0) ? '' : 'stuck';
  }

  /** Throws a SlowGrammar after a call that took too long. The state tells the inference thread of one that lasts. */
  async #timed<T>(state: MatcherState, call: () => T | Promise<T>): Promise<T> {
    const begin = clockMs();
    state.callsOrReturns();
    const found = await call();
    state.callsOrReturns();
    if (clockMs() - begin > this.#tokenMs) throw new SlowGrammar();
    return found;
  }
}
