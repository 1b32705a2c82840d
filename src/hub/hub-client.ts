/** Speaks with a hub: lists the files of a repository, and asks for their bytes. */
import { setTimeout as delay } from 'node:timers/promises';
import { listFiles, modelInfo } from '@huggingface/hub';
import { type ErrorCode, SidaError } from '../errors.js';
import type { RepoFile } from './model-files.js';

export interface HubFile extends RepoFile {
  /** Name of the file's blob in the cache: the sha256 of a large file, the id of a Git blob otherwise. */
  blob: string;
  large: boolean;
}

export interface Repository {
  commit: string;
  files: HubFile[];
}

interface HubOptions {
  env?: NodeJS.ProcessEnv;
  /** Called with a line to show when the hub makes the caller wait. */
  onWait?: (line: string) => void;
  /** Its reason is thrown by whatever waits for the hub. */
  signal?: AbortSignal;
}

/** Tries in a row that bring nothing. */
export const MOST_TRIES = 5;
const FIRST_WAIT_MS = 500;
/** A hub that asks for a longer wait ends the download. */
const LONGEST_WAIT_MS = 5 * 60_000;

const REFUSALS: Record<number, ErrorCode> = {
  401: 'unauthorized',
  403: 'forbidden',
  404: 'model_not_found',
  429: 'rate_limited',
};

export class Hub {
  readonly #url: string;
  readonly #token: string | undefined;
  readonly #onWait: (line: string) => void;
  readonly #signal: AbortSignal;

  constructor({
    env = process.env,
    onWait = () => undefined,
    signal = new AbortController().signal,
  }: HubOptions = {}) {
    this.#url = (env.HF_ENDPOINT || 'https://huggingface.co').replace(/\/+$/, '');
    if (!URL.canParse(this.#url)) {
      throw new SidaError({
        code: 'invalid_request',
        message: `HF_ENDPOINT: expected a URL, found ${this.#url}`,
      });
    }
    this.#token = env.HF_TOKEN || undefined;
    this.#onWait = onWait;
    this.#signal = signal;
  }

  get host(): string {
    return new URL(this.#url).host;
  }

  async repository(repo: string): Promise<Repository> {
    const common = {
      hubUrl: this.#url,
      fetch: (input: Parameters<typeof fetch>[0], init?: RequestInit) => this.#ask(repo, String(input), init),
    };
    const { sha } = await modelInfo({ ...common, name: repo, revision: 'main', additionalFields: ['sha'] });
    if (!/^[0-9a-f]{40}$/.test(sha)) throw this.#fault(`has no commit of ${repo}`);
    const files: HubFile[] = [];
    for await (const { type, path, size, oid, lfs } of listFiles({
      ...common,
      repo,
      revision: sha,
      recursive: true,
    })) {
      if (type !== 'file') continue;
      const blob = lfs?.oid ?? oid;
      if (!isPlainPath(path) || blob === undefined || !/^([0-9a-f]{40}|[0-9a-f]{64})$/.test(blob)) {
        throw this.#fault(`lists a bad file of ${repo}: ${JSON.stringify(path)}`);
      }
      files.push({ path, size: lfs?.size ?? size, blob, large: lfs !== undefined });
    }
    return { commit: sha, files };
  }

  /** The answer to a request for a file's bytes from `begin` on, up to `end`. Its status is 200 or 206. */
  ask(repo: string, commit: string, path: string, begin: number, end?: number): Promise<Response> {
    const url = `${this.#url}/${repo}/resolve/${commit}/${path.split('/').map(encodeURIComponent).join('/')}`;
    const range = `bytes=${begin}-${end === undefined ? '' : end - 1}`;
    // Ranges are of the file's own bytes.
    return this.#ask(repo, url, { headers: { 'accept-encoding': 'identity', range } });
  }

  /** Waits before try number `tries`, as long as the hub asks. Throws rate_limited when that is too long. */
  async wait(tries: number, asked = 0): Promise<void> {
    if (asked > LONGEST_WAIT_MS) {
      throw this.#fault(`asks to wait ${Math.ceil(asked / 1000)} s; try again then`, 'rate_limited');
    }
    const ms = Math.max(asked, FIRST_WAIT_MS * 2 ** (tries - 1));
    if (ms >= 2_000) this.#onWait(`Waits ${Math.ceil(ms / 1000)} s for ${this.host}`);
    await delay(ms, undefined, { signal: this.#signal }).catch(() => this.#signal.throwIfAborted());
  }

  /** The answer to a request, which is repeated while the hub cannot answer. Throws for a refusal. */
  async #ask(repo: string, url: string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers);
    // The token is for the hub only. A redirect to another host drops it.
    if (this.#token !== undefined && new URL(url).origin === new URL(this.#url).origin) {
      headers.set('authorization', `Bearer ${this.#token}`);
    }
    for (let tries = 1; ; tries++) {
      const last = tries === MOST_TRIES;
      let asked = 0;
      try {
        const response = await fetch(url, { ...init, headers, signal: this.#signal });
        if (response.ok) return response;
        const passing = response.status === 429 || response.status >= 500;
        if (last || !passing) throw await this.#refusal(repo, response);
        asked = retryAfterMs(response);
        await response.body?.cancel();
      } catch (error) {
        this.#signal.throwIfAborted();
        if (error instanceof SidaError) throw error;
        const { message, code } = ((error as Error).cause ?? error) as NodeJS.ErrnoException;
        if (last || code === 'ENOTFOUND' || code === 'ECONNREFUSED') {
          throw new SidaError({
            code: 'hub_unreachable',
            message: `Cannot reach ${this.host}: ${message || code}`,
          });
        }
      }
      await this.wait(tries, asked);
    }
  }

  async #refusal(repo: string, response: Response): Promise<SidaError> {
    const { status } = response;
    await response.body?.cancel();
    const said = response.headers.get('x-error-message');
    const code = REFUSALS[status] ?? 'io_error';
    const token = this.#token === undefined ? 'set HF_TOKEN' : 'use an HF_TOKEN that may read it';
    if (status === 401)
      return this.#fault(`has no model ${repo}, or it is not public: check the name, or ${token}`, code);
    if (status === 403) {
      return this.#fault(
        `does not give ${repo} to you: accept its terms at ${this.#url}/${repo}, and ${token}`,
        code,
      );
    }
    if (status === 404) return this.#fault(`has no such model: ${said ?? repo}`, code);
    return this.#fault(`answered ${status}${said === null ? '' : `: ${said}`}`, code);
  }

  #fault(what: string, code: ErrorCode = 'io_error'): SidaError {
    return new SidaError({ code, message: `${this.host} ${what}` });
  }
}

function isPlainPath(path: string): boolean {
  return path.split('/').every((part) => !/^\.{0,2}$|[\\\p{Cc}]/u.test(part));
}

function retryAfterMs(response: Response): number {
  const header = response.headers.get('retry-after') ?? '';
  const ms = /^\d+$/.test(header) ? Number(header) * 1000 : Date.parse(header) - Date.now();
  return ms > 0 ? ms : 0;
}
