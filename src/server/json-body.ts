/**
 * Reads a JSON body. It checks the content type and encoding first, the bytes while they arrive, then UTF-8, depth,
 * number of fields and duplicate keys, and the values last.
 */
import { isUtf8 } from 'node:buffer';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { SidaError } from '../errors.js';
import { shortSeed } from '../protocol/sampling.js';
import { parseExactly } from '../text/exact-json.js';
import { shapeFault } from '../text/json-shape.js';
import { oneLine } from '../text/one-line.js';
import { LIMITS } from './limits.js';

/** Bytes of all bodies that are being read. */
let reading = 0;

export async function readJsonBody(
  req: IncomingMessage,
  res: ServerResponse,
  mostBytes: number,
): Promise<unknown> {
  checkHeaders(req, mostBytes);
  if (req.headers.expect !== undefined) res.writeContinue();
  const body = await readBytes(req, mostBytes);
  if (body.length === 0) throw invalidJson('The request body is empty; a JSON object is expected');
  if (!isUtf8(body)) throw invalidJson('The request body is not valid UTF-8');
  checkShape(body);
  const text = body.toString('utf8');
  let value: unknown;
  try {
    value = parseExactly(text, { seed: shortSeed });
  } catch {
    throw invalidJson('The request body is not valid JSON');
  }
  checkValues(value, SURROGATE_ESCAPE.test(text));
  return value;
}

function checkHeaders(req: IncomingMessage, mostBytes: number): void {
  const type = req.headers['content-type'] ?? '';
  if (!/^application\/json\s*(;\s*charset\s*=\s*"?utf-8"?\s*)?$/i.test(type)) {
    throw new SidaError({
      code: 'unsupported_media_type',
      message: 'Expected the content-type header to be application/json',
    });
  }
  const encoding = req.headers['content-encoding'];
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
    throw new SidaError({
      code: 'unsupported_media_type',
      message: 'Expected a body without compression: content-encoding may only be identity',
    });
  }
  if (Number(req.headers['content-length'] ?? 0) > mostBytes) throw tooLarge(mostBytes);
}

function readBytes(req: IncomingMessage, mostBytes: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const onData = (chunk: Buffer) => {
      bytes += chunk.length;
      reading += chunk.length;
      if (bytes > mostBytes) finish(() => reject(tooLarge(mostBytes)));
      else if (bytes > LIMITS.smallBodyBytes && reading > LIMITS.bodiesBytes) finish(() => reject(tooMany()));
      else chunks.push(chunk);
    };
    const onEnd = () => finish(() => resolve(Buffer.concat(chunks, bytes)));
    const onGone = () =>
      finish(() => reject(new SidaError({ code: 'cancelled', message: 'The client went away' })));
    const finish = (settle: () => void) => {
      req.off('data', onData).off('end', onEnd).off('close', onGone);
      reading -= bytes;
      settle();
    };
    req.on('data', onData).on('end', onEnd).on('close', onGone);
    // A client that goes away also causes an error of the stream. The `close` event settles the promise.
    req.on('error', () => undefined);
  });
}

function checkShape(body: Buffer): void {
  const { jsonDepth, jsonFields, jsonCommas } = LIMITS;
  const fault = shapeFault(body, { depth: jsonDepth, fields: jsonFields, commas: jsonCommas });
  if (fault?.kind === 'depth')
    throw invalidJson(`The request body is nested deeper than ${jsonDepth} levels`);
  if (fault?.kind === 'fields' || fault?.kind === 'commas') {
    const most = fault.kind === 'fields' ? `${jsonFields} fields` : `${jsonCommas} list entries`;
    throw new SidaError({ code: 'invalid_request', message: `The request body has more than ${most}` });
  }
  // JSON.parse would keep the last value, and a proxy in front may have checked the first.
  if (fault?.kind === 'duplicate') throw duplicateKey(fault.path);
}

function duplicateKey(path: (string | number)[]): SidaError {
  const key = JSON.stringify(String(path.at(-1)).slice(0, 100));
  const within = path.length > 1 ? ` in "${oneLine(path.slice(0, -1).join('.'), 100)}"` : '';
  return new SidaError({
    code: 'invalid_json',
    message: `The request body has the key ${key} twice${within}`,
    param: oneLine(path.join('.'), 200),
  });
}

/** In valid UTF-8, a lone surrogate can only come from such an escape. */
const SURROGATE_ESCAPE = /\\u[dD][89a-fA-F]/;

/** Refuses values that JSON.parse accepts but that later code cannot handle. checkShape bounds the recursion. */
function checkValues(value: unknown, surrogates: boolean): void {
  if (typeof value === 'number') {
    if (!Number.isFinite(value))
      throw invalidJson('The request body has a number outside the range of a double');
  } else if (typeof value === 'string') {
    if (surrogates) checkText(value);
  } else if (Array.isArray(value)) {
    for (const item of value) checkValues(item, surrogates);
  } else if (typeof value === 'object' && value !== null) {
    for (const key of Object.keys(value)) {
      if (surrogates) checkText(key);
      if (key === '__proto__') throw invalidJson('The request body has a field named "__proto__"');
      checkValues((value as Record<string, unknown>)[key], surrogates);
    }
  }
}

function checkText(text: string): void {
  if (/\p{Surrogate}/u.test(text)) throw invalidJson('The request body has a lone surrogate in a text');
}

function invalidJson(message: string): SidaError {
  return new SidaError({ code: 'invalid_json', message });
}

function tooMany(): SidaError {
  return new SidaError({
    code: 'queue_full',
    message: `Large requests are arriving with more than ${LIMITS.bodiesBytes} bytes together; try again later`,
    details: { retry_after_s: 1, limit: LIMITS.bodiesBytes },
  });
}

function tooLarge(mostBytes: number): SidaError {
  return new SidaError({
    code: 'request_too_large',
    message: `The request body is larger than ${mostBytes} bytes, which is its limit`,
  });
}
