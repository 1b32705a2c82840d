/** The query of routes about one model: `?model=NAME`. */
import type { Request } from 'express';
import { z } from 'zod';
import { SidaError } from '../errors.js';
import { type ModelContext, type ServerContext, selectOneModel } from './context.js';

export const ModelQuery = z.object({
  model: z.string().optional().meta({ description: 'Name of the model; needed where several are served' }),
});

/** Throws invalid_request when the query does not name one model of several, and model_not_found for another name. */
export function chosenModel(context: ServerContext, { originalUrl }: Request): ModelContext {
  const at = originalUrl.indexOf('?');
  const asked = new URLSearchParams(at < 0 ? '' : originalUrl.slice(at)).getAll('model');
  if (asked.length > 1) {
    const message = `Expected one model in the query, found ${asked.length}`;
    throw new SidaError({ code: 'invalid_request', message, param: 'model' });
  }
  return selectOneModel(context, asked[0]);
}
