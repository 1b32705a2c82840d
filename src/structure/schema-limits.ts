/** Limits of a schema, which keep the time of compiling it short. */
export const SCHEMA_LIMITS = {
  bytes: 128 << 10,
  depth: 24,
  schemas: 2_000,
  enumValues: 2_000,
  repeats: 1_000,
  /** Characters of a name, where other names may stand beside it. */
  name: 256,
  /** Of all schemas of a request: values and properties that are compared, a few milliseconds of work. */
  comparisons: 150_000,
  /** Of all patterns of a request. Reading one takes a few microseconds a character. */
  patternCharacters: 8_192,
};
