/** Turns a failure to listen on a port into an error that names the flag to change. */
import { SidaError } from '../errors.js';

/** Calls `start`. Throws io_error when it fails. `flag` is the flag that chooses the port. */
export async function listening<T>(
  host: string,
  port: number,
  flag: string,
  start: () => Promise<T>,
): Promise<T> {
  try {
    return await start();
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const reason = code === 'EADDRINUSE' ? `another program listens there; choose another ${flag}` : message;
    throw new SidaError({ code: 'io_error', message: `Cannot listen on ${host}:${port}: ${reason}` });
  }
}
