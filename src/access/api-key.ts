/**
 * Keys and what is stored of them: a salted SHA-256. A slow hash would protect keys that people choose; these are 256
 * random bits, which no speed of guessing finds, and a slow hash on every request would itself be a way to overload the
 * server.
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';

const SALT_BYTES = 16;

export interface KeyHash {
  salt: Buffer;
  digest: Buffer;
}

/** The beginning lets scanners for leaked secrets know it. */
export function newApiKey(): string {
  return `sida_${randomBytes(32).toString('base64url')}`;
}

export function hashKey(key: string, salt: Buffer = randomBytes(SALT_BYTES)): KeyHash {
  return { salt, digest: createHash('sha256').update(salt).update(key).digest() };
}

/** Takes the same time whatever the key: digests have one length. */
export function isKey(key: string, { salt, digest }: KeyHash): boolean {
  return timingSafeEqual(hashKey(key, salt).digest, digest);
}
