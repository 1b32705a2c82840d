/** A file of API keys, one for each name. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { hashKey, newApiKey } from '../../src/access/api-key.js';
import { keyLine } from '../../src/access/key-file.js';
import { bearer } from './access-cases.js';

type Scopes = Parameters<typeof keyLine>[0]['scopes'];

export interface KeyFile<Name extends string> {
  path: string;
  /** What a request with the key carries. */
  headers: Record<Name, Record<string, string>>;
  remove(): void;
}

export function keyFile<Name extends string>(scopes: Record<Name, Scopes>): KeyFile<Name> {
  const folder = mkdtempSync(join(tmpdir(), 'sida-keys-'));
  const path = join(folder, 'keys');
  const keys = Object.entries<Scopes>(scopes).map(([name, of]) => ({ name, scopes: of, key: newApiKey() }));
  const lines = keys.map(({ key, ...rest }) => keyLine({ ...rest, hash: hashKey(key) }));
  writeFileSync(path, lines.join('\n'), { mode: 0o600 });
  const headers: Record<string, object> = Object.fromEntries(
    keys.map(({ name, key }) => [name, bearer(key)]),
  );
  return {
    path,
    headers: headers as KeyFile<Name>['headers'],
    remove: () => rmSync(folder, { recursive: true }),
  };
}
