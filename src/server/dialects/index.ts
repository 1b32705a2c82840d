/** All dialects, in the order of the OpenAPI document. A new dialect needs its own folder and a line here. */
import { anthropic } from './anthropic/index.js';
import type { Dialect } from './dialect.js';
import { ollama } from './ollama/index.js';

export const DIALECTS: readonly Dialect[] = [anthropic, ollama];
