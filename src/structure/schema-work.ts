/**
 * Counts what the schemas of one request take to check. The server checks them on its event loop, before it knows
 * whether it admits the request, so their work is bounded together.
 */
import { refuse } from './schema-fault.js';
import { SCHEMA_LIMITS } from './schema-limits.js';

export class SchemaWork {
  #comparisons = 0;
  #patternCharacters = 0;

  /** Values and properties that were compared to tell the schemas of a "oneOf" from each other. */
  compared(count: number, path: readonly string[]): void {
    this.#comparisons += count;
    const { comparisons } = SCHEMA_LIMITS;
    if (this.#comparisons > comparisons)
      refuse(
        path,
        `telling the schemas of the request from each other takes more than ${comparisons} comparisons; "anyOf" needs none`,
      );
  }

  /** Call it before the pattern is read. */
  pattern(characters: number, path: readonly string[]): void {
    this.#patternCharacters += characters;
    const { patternCharacters } = SCHEMA_LIMITS;
    if (this.#patternCharacters > patternCharacters)
      refuse(
        path,
        `with it, the patterns of the request have ${this.#patternCharacters} characters; the limit is ${patternCharacters}`,
      );
  }
}
