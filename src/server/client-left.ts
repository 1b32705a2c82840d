import type { Response } from 'express';
import { SidaError } from '../errors.js';

/** Aborts with `cancelled` when the client has left. */
export function clientLeft(res: Response): AbortSignal {
  const left = new AbortController();
  const onClose = () => left.abort(new SidaError({ code: 'cancelled', message: 'The client has left' }));
  if (res.destroyed) onClose();
  else res.once('close', onClose);
  return left.signal;
}
