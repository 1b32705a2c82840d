/** Requests of commands to a running server. */
import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { text as textOf } from 'node:stream/consumers';
import { UsageError } from '../config/resolve.js';
import { ERROR_CODES, type ErrorCode, SidaError } from '../errors.js';

/** The server's address without the end that clients of OpenAI's API have. Throws UsageError. */
export function baseOf(url: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed !== undefined && /^https?:$/.test(parsed.protocol))
    return parsed.href.replace(/\/(v1\/?)?$/, '');
  throw new UsageError(
    `Expected the "--url" option to be the address of a server, but got ${JSON.stringify(url)}; for example http://127.0.0.1:8080`,
  );
}

/** Resolves with a successful response. A request without a body is a GET. */
export async function call(url: string, body?: object, signal?: AbortSignal): Promise<IncomingMessage> {
  const key = process.env.SIDA_API_KEY;
  const send = url.startsWith('https:') ? httpsRequest : httpRequest;
  const request = send(url, {
    method: body === undefined ? 'GET' : 'POST',
    headers: {
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...(key && { authorization: `Bearer ${key}` }),
    },
    ...(signal && { signal }),
  });
  request.end(body && JSON.stringify(body));
  let response: IncomingMessage;
  try {
    [response] = (await once(request, 'response')) as [IncomingMessage];
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const why = code === 'ECONNREFUSED' ? 'nothing listens there' : message;
    throw new SidaError({ code: 'io_error', message: `${new URL(url).origin}: ${why}` }, { cause: error });
  }
  if (response.statusCode === 200) return response;
  throw refusal(errorOf(await textOf(response)), response.statusCode!);
}

/** Resolves with the JSON that the server answers. */
export async function getJson<T>(url: string): Promise<T> {
  return JSON.parse(await textOf(await call(url))) as T;
}

function errorOf(text: string): { code?: string; message?: string } {
  try {
    return (JSON.parse(text) as { error?: object }).error ?? {};
  } catch {
    return {};
  }
}

export function refusal({ code, message }: { code?: string; message?: string }, status: number): SidaError {
  const known = code !== undefined && Object.hasOwn(ERROR_CODES, code) ? (code as ErrorCode) : 'io_error';
  const hint = status === 401 ? ' (SIDA_API_KEY holds the key)' : '';
  return new SidaError({ code: known, message: `${message ?? `The server answers ${status}`}${hint}` });
}
