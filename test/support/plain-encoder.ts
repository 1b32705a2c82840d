import type { Encoder } from '../../src/engine/tokenizer-link.js';
import type { Tokenizer } from '../../src/text/tokenizer.js';

/** Encodes and decodes at once, on the calling thread. */
export function plainEncoder(tokenizer: Tokenizer): Encoder {
  return {
    encode(texts, done) {
      done(
        texts.map(({ text, special }) =>
          Int32Array.from(special ? tokenizer.encode(text) : tokenizer.encodePlain(text)),
        ),
      );
      return () => undefined;
    },
    decode(lists, done) {
      done(lists.map(({ ids, skipSpecial }) => tokenizer.decode(ids, skipSpecial)));
      return () => undefined;
    },
  };
}
