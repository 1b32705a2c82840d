/** What to say where a port cannot be listened on. */
import { SidaError } from '../errors.js';

/** `flag`: chooses the port. */
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
