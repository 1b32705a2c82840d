/** Most inputs or prompts in one request. */
export const MOST_INPUTS = 32;
