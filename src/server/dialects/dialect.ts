/** The interface of another server, translated onto the tasks. index.ts lists the dialects. */
import type { ErrorShape } from '../middleware/errors.js';
import type { Route } from '../route.js';

export interface Dialect {
  /** Errors of paths that begin with it have the dialect's shape. */
  prefix: string;
  routes: readonly Route[];
  error: ErrorShape;
}
