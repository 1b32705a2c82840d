/** Inputs or prompts of one request. */
export const MOST_INPUTS = 32;
