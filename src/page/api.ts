/** Requests to the server that served the page, and their errors. */
import { EventSourceParserStream } from 'eventsource-parser/stream';

// The key is kept for this tab alone, and travels in a header, never in an address.
const STORED = 'sida-key';
let held = '';
try {
  held = sessionStorage.getItem(STORED) ?? '';
} catch {
  // A browser that stores nothing asks for the key after a reload.
}
export const storedKey = () => held;
export function storeKey(key: string): void {
  held = key;
  try {
    if (key === '') sessionStorage.removeItem(STORED);
    else sessionStorage.setItem(STORED, key);
  } catch {
    // As above.
  }
}
/** Browsers send no header with other characters. */
export const mayBeKey = (key: string) => /^[!-~]+$/.test(key);

/** An answer that is an error. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** In words, why there is no answer. */
export const reasonOf = (error: unknown) =>
  error instanceof Refused ? error.message : 'The server cannot be reached.';

/** Rejects with TypeError where there is no answer. */
function send(path: string, { body, ...options }: Sent): Promise<Response> {
  const key = storedKey();
  const headers = {
    ...(body !== undefined && { 'content-type': 'application/json' }),
    ...(key !== '' && { authorization: `Bearer ${key}` }),
  };
  const text = body === undefined ? null : JSON.stringify(body);
  return fetch(path, { ...options, headers, body: text, cache: 'no-store' });
}
interface Sent {
  method?: 'GET' | 'POST' | 'PUT' | 'DELETE';
  body?: unknown;
  signal?: AbortSignal;
  /** Sends it also when the page is being left. */
  keepalive?: boolean;
}

/** The body of an answer. Rejects with Refused for an error. `accept` names statuses that are none. */
export async function ask<T>(path: string, options: Sent = {}, accept: readonly number[] = []): Promise<T> {
  const answer = await send(path, options);
  const body = await answer.json().catch(() => undefined);
  if (body === undefined) throw new Refused(answer.status, `The answer was not JSON (HTTP ${answer.status})`);
  if (!answer.ok && !accept.includes(answer.status))
    throw new Refused(answer.status, body.error?.message ?? `HTTP ${answer.status}`);
  return body;
}

/** The data of server-sent events, each as soon as it has come. Rejects with Refused for an error. */
export async function* events(path: string, options: Sent): AsyncGenerator<string> {
  const answer = await send(path, options);
  if (!answer.ok) {
    const body = await answer.json().catch(() => undefined);
    throw new Refused(answer.status, body?.error?.message ?? `HTTP ${answer.status}`);
  }
  const reader = answer
    .body!.pipeThrough(new TextDecoderStream())
    .pipeThrough(new EventSourceParserStream())
    .getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value.data;
  }
}
