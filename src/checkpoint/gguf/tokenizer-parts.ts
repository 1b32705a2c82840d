/** What the kinds of GGUF tokenizers give for tokenizer.json. The other fields are the same for all. */

export interface TokenizerParts {
  normalizer: object | null;
  pre_tokenizer: object | null;
  decoder: object;
  model: object;
  /** Special tokens that take the spaces beside them, which the metadata does not say. */
  takesSpaces?: RegExp;
  /** Whether texts get these tokens in a file that does not say. */
  addBos: boolean;
  addEos: boolean;
}
