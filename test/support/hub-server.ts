// A hub on 127.0.0.1 that speaks the protocol of Hugging Face's: listings in pages, redirects to storage on another
// origin, ranges, Git blobs and LFS files. Tests put their faults into `fault`.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';

export const COMMIT = 'c0ffee'.padEnd(40, '0');
const PAGE = 3;

export interface Asked {
  host: string;
  path: string;
  range: string | undefined;
  authorization: string | undefined;
}

/** Answers a request in place of the hub, and returns true; or returns false. */
export type Fault = (asked: Asked, response: ServerResponse, content: Buffer | undefined) => boolean;

export class HubServer {
  readonly repos = new Map<string, Map<string, Buffer>>();
  readonly asked: Asked[] = [];
  fault: Fault = () => false;
  sentBytes = 0;
  readonly #hub: Server;
  readonly #storage: Server;

  private constructor() {
    this.#hub = createServer((request, response) => this.#answer(request, response, false));
    this.#storage = createServer((request, response) => this.#answer(request, response, true));
  }

  static async start(): Promise<HubServer> {
    const server = new HubServer();
    for (const each of [server.#hub, server.#storage]) {
      await new Promise<void>((resolve) => each.listen(0, '127.0.0.1', resolve));
    }
    return server;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#hub.address() as AddressInfo).port}`;
  }

  /** Publishes files of a directory. */
  publish(repo: string, directory: string, names: readonly string[]): void {
    this.repos.set(repo, new Map(names.map((name) => [name, readFileSync(join(directory, name))])));
  }

  /** Forgets the faults and requests of a test. */
  reset(): void {
    this.fault = () => false;
    this.asked.length = 0;
    this.sentBytes = 0;
  }

  /** The requests for bytes of the file, at its storage. */
  askedFor(name: string): Asked[] {
    return this.asked.filter(({ path, host }) => path.endsWith(name) && host === this.#storageHost);
  }

  async stop(): Promise<void> {
    for (const each of [this.#hub, this.#storage]) {
      each.closeAllConnections();
      await new Promise((resolve) => each.close(resolve));
    }
  }

  get #storageHost(): string {
    return `127.0.0.1:${(this.#storage.address() as AddressInfo).port}`;
  }

  #answer(request: IncomingMessage, response: ServerResponse, storage: boolean): void {
    const url = new URL(request.url!, this.url);
    const path = decodeURIComponent(url.pathname);
    const { range, authorization, host = '' } = request.headers;
    const asked = { host, path, range, authorization };
    this.asked.push(asked);
    const [, repo, what, name] =
      /^\/(?:api\/models\/)?([^/]+\/[^/]+)\/(revision|tree|resolve)\/[^/]+(?:\/(.+))?$/.exec(path) ?? [];
    const files = this.repos.get(repo ?? '');
    const content = name === undefined ? undefined : files?.get(name);
    if (this.fault(asked, response, content)) return;
    // As the hub: who is not logged in does not learn which private models exist.
    if (files === undefined) {
      refuse(response, authorization === undefined ? 401 : 404, 'Repository not found');
    } else if (what === 'revision') sendJson(response, { _id: '1', id: repo, sha: COMMIT });
    else if (what === 'tree') this.#list(files, url, response);
    else if (content === undefined) refuse(response, 404, 'Entry not found');
    else if (!isLarge(content) || storage) this.#send(content, range, response);
    else this.#redirect(content, request.url!, response);
  }

  #redirect(content: Buffer, path: string, response: ServerResponse): void {
    response.writeHead(302, {
      location: `http://${this.#storageHost}${path}`,
      'x-linked-size': content.length,
      'x-linked-etag': `"${blobOf(content)}"`,
      'x-xet-hash': 'f'.repeat(64),
      link: '<https://cas.invalid>; rel="xet-reconstruction-info"',
    });
    response.end();
  }

  #list(files: Map<string, Buffer>, url: URL, response: ServerResponse): void {
    const begin = Number(url.searchParams.get('cursor') ?? 0);
    const entries = [...files].slice(begin, begin + PAGE).map(([path, content]) => ({
      type: 'file',
      path,
      // Of an LFS file Git holds a pointer.
      size: content.length,
      oid: isLarge(content) ? 'b'.repeat(40) : blobOf(content),
      ...(isLarge(content) && {
        lfs: { oid: blobOf(content), size: content.length, pointerSize: 134 },
        xetHash: 'f'.repeat(64),
      }),
    }));
    if (begin + PAGE < files.size) {
      url.searchParams.set('cursor', String(begin + PAGE));
      response.setHeader('link', `<${url}>; rel="next"`);
    }
    sendJson(response, entries);
  }

  #send(content: Buffer, range: string | undefined, response: ServerResponse): void {
    const [, from, to] = /^bytes=(\d+)-(\d*)$/.exec(range ?? '') ?? [];
    const begin = Number(from ?? 0);
    const end = to === undefined || to === '' ? content.length : Math.min(Number(to) + 1, content.length);
    const piece = content.subarray(begin, end);
    if (range !== undefined) {
      response.writeHead(206, { 'content-range': `bytes ${begin}-${end - 1}/${content.length}` });
    }
    this.sentBytes += piece.length;
    response.end(piece);
  }
}

export function isLarge(content: Buffer): boolean {
  return content.length > 10_000;
}

const blobs = new WeakMap<Buffer, string>();

/** The name of the content in the cache. */
export function blobOf(content: Buffer): string {
  const known = blobs.get(content) ?? hashOf(content);
  blobs.set(content, known);
  return known;
}

function hashOf(content: Buffer): string {
  if (isLarge(content)) return createHash('sha256').update(content).digest('hex');
  return createHash('sha1').update(`blob ${content.length}\0`).update(content).digest('hex');
}

export function refuse(response: ServerResponse, status: number, message: string): void {
  response.writeHead(status, { 'x-error-message': message });
  response.end();
}

function sendJson(response: ServerResponse, value: unknown): void {
  response.setHeader('content-type', 'application/json; charset=utf-8');
  response.end(JSON.stringify(value));
}
