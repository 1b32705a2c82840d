/**
 * The file of `--api-keys`. Each line holds the name of a key, its scopes, and `sha256:` with salt and digest in
 * hexadecimal.
 *
 *     # name   scopes           hash
 *     ci       infer            sha256:8f0c…:51d7…
 *     grafana  metrics          sha256:07aa…:e94b…
 */
import type { KeyHash } from './api-key.js';
import { isScope, SCOPES, type Scope } from './scopes.js';

export interface NamedKey {
  name: string;
  scopes: Scope[];
  hash: KeyHash;
}

/** Every request is compared with every key, which takes about two microseconds for each. */
export const MOST_KEYS = 256;

/** Owners of requests whose key is not in the file; see key-ring.ts. */
const RESERVED = new Set(['default', 'anyone']);

/** Describes what is wrong with a name; undefined when it is valid. */
export function nameFault(name: string): string | undefined {
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(name)) {
    return 'expected a name of 1 to 64 letters, digits, dots, dashes and underscores';
  }
  return RESERVED.has(name) ? `the name "${name}" has a meaning of its own; choose another` : undefined;
}

/** Parses scopes such as `infer,metrics`; undefined when the text is empty or names an unknown scope. */
export function parseScopes(text: string): Scope[] | undefined {
  const scopes = text.split(',');
  return scopes.every(isScope) ? [...new Set(scopes)] : undefined;
}

export function keyLine({ name, scopes, hash }: NamedKey): string {
  return `${name} ${scopes.join()} sha256:${hash.salt.toString('hex')}:${hash.digest.toString('hex')}`;
}

/**
 * Throws an Error that names the line. A file without keys is an error, because an editor may have truncated it
 * before writing it again.
 */
export function parseKeyFile(text: string): NamedKey[] {
  const keys: NamedKey[] = [];
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    if (line.trim() === '' || line.trimStart().startsWith('#')) continue;
    const fault = (what: string) => new Error(`line ${index + 1}: ${what}`);
    const [name, scopes, stored, ...rest] = line.trim().split(/\s+/);
    if (name === undefined || scopes === undefined || stored === undefined || rest.length > 0) {
      throw fault('expected a name, scopes and a hash, as `sida key new` prints them');
    }
    const wrong = nameFault(name);
    if (wrong !== undefined) throw fault(wrong);
    if (keys.some((key) => key.name === name)) throw fault(`the name "${name}" is there twice`);
    const named = parseScopes(scopes);
    if (named === undefined) throw fault(`expected scopes out of ${SCOPES.join(', ')}, separated by commas`);
    const hash = parseHash(stored);
    if (hash === undefined) throw fault('expected sha256:<salt>:<digest> in hexadecimal');
    keys.push({ name, scopes: named, hash });
  }
  if (keys.length === 0) throw new Error('it has no keys; `sida key new` makes one');
  if (keys.length > MOST_KEYS) throw new Error(`it has ${keys.length} keys; the most is ${MOST_KEYS}`);
  return keys;
}

function parseHash(text: string): KeyHash | undefined {
  const match = /^sha256:((?:[0-9a-f]{2}){8,64}):([0-9a-f]{64})$/.exec(text);
  if (match === null) return undefined;
  return { salt: Buffer.from(match[1]!, 'hex'), digest: Buffer.from(match[2]!, 'hex') };
}
