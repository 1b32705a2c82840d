/** A server that speaks HTTPS with the certificate of two files, which it reads again when they change. */
import { readFileSync, unwatchFile, watchFile } from 'node:fs';
import type { ServerOptions } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { Logger } from 'pino';
import { SidaError } from '../errors.js';
import { causeOf } from '../text/system-error.js';
import { LIMITS } from './limits.js';

export interface TlsFiles {
  cert: string;
  key: string;
}

/** Throws invalid_request if the files have no certificate with its key. */
export function createTlsServer(options: ServerOptions, files: TlsFiles, logger: Logger): Server {
  const server = createTls(options, files);
  const reload = () => {
    try {
      server.setSecureContext(read(files));
      logger.info({ cert: files.cert }, 'read the certificate again');
    } catch (error) {
      logger.error({ err: error, cert: files.cert }, 'keeps the earlier certificate');
    }
  };
  for (const path of [files.cert, files.key])
    watchFile(path, { interval: LIMITS.certificateMs, persistent: false }, reload);
  server.once('close', () => {
    for (const path of [files.cert, files.key]) unwatchFile(path, reload);
  });
  return server;
}

function createTls(options: ServerOptions, files: TlsFiles): Server {
  try {
    return createServer({ ...options, ...read(files), handshakeTimeout: LIMITS.headersTimeoutMs });
  } catch (error) {
    const { path, message: reason } = error as NodeJS.ErrnoException;
    const message =
      path === undefined
        ? `--tls-cert ${files.cert} and --tls-key ${files.key} are no certificate with its key: ${reason}`
        : `${path}: ${causeOf(error)}`;
    throw new SidaError({ code: 'invalid_request', message }, { cause: error });
  }
}

function read({ cert, key }: TlsFiles): { cert: Buffer; key: Buffer } {
  return { cert: readFileSync(cert), key: readFileSync(key) };
}
