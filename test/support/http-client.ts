/**
 * An HTTP client for tests. Each request has its own connection unless it names an agent. No status is an error. Raw
 * bytes can be sent too.
 */
import { type Agent, request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import { connect } from 'node:net';

export interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
  // The tests look into answers of many shapes.
  // biome-ignore lint/suspicious/noExplicitAny: see above
  json: any;
}

export interface Asked {
  method?: string;
  headers?: Record<string, string>;
  /** Body of the request. An object is sent as JSON. */
  body?: unknown;
  /** Agent that keeps connections for later requests. */
  agent?: Agent;
}

export function ask(
  port: number,
  path: string,
  { method = 'GET', headers = {}, body, agent }: Asked = {},
): Promise<Answer> {
  const payload =
    body === undefined || typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const request = httpRequest({
      host: '127.0.0.1',
      port,
      path,
      method,
      agent: agent ?? false,
      headers: {
        ...(payload !== undefined && {
          'content-type': 'application/json',
          'content-length': Buffer.byteLength(payload),
        }),
        ...headers,
      },
    });
    request.on('error', reject).on('response', (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (piece: string) => {
        text += piece;
      });
      response.on('error', reject).on('end', () => {
        const isJson = response.headers['content-type']?.startsWith('application/json') && text !== '';
        resolve({
          status: response.statusCode!,
          headers: response.headers,
          text,
          json: isJson ? JSON.parse(text) : undefined,
        });
      });
    });
    request.end(payload);
  });
}

/** The text of a POST request with a JSON body, to write to a socket. */
export function postText(path: string, body: object, ...headers: string[]): string {
  const text = JSON.stringify(body);
  const lines = [`POST ${path} HTTP/1.1`, 'host: localhost', 'content-type: application/json'];
  return `${[...lines, `content-length: ${Buffer.byteLength(text)}`, ...headers].join('\r\n')}\r\n\r\n${text}`;
}

/**
 * Sends bytes as they are. Resolves with all received text (latin1) when the connection ends, or after `limitMs`
 * milliseconds. `heard` gets the text so far whenever data arrives.
 */
export function raw(
  port: number,
  bytes: string | Buffer,
  limitMs = 3_000,
  heard: (text: string) => void = () => undefined,
): Promise<string> {
  return new Promise((resolve) => {
    let text = '';
    const socket = connect({ host: '127.0.0.1', port }, () => socket.write(bytes));
    const timer = setTimeout(() => socket.destroy(), limitMs);
    socket.on('data', (data) => {
      text += data.toString('latin1');
      heard(text);
    });
    socket
      .on('error', () => undefined)
      .on('close', () => {
        clearTimeout(timer);
        resolve(text);
      });
  });
}
