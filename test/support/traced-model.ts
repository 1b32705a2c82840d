/** The model that a test's trace names. */
export function tracedModel(name: string, weights = 'f'.repeat(64)) {
  return { name, weights, tokenizer: '0'.repeat(64), experts: 'bf16', dense: 'bf16' };
}
