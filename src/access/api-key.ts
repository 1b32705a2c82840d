/**
 * API keys and their stored form, a salted SHA-256. Slow hashes protect passwords that people choose. These keys are
 * 256 random bits, which cannot be guessed at any speed, and a slow hash on every request would let clients overload
 * the server.
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';

const SALT_BYTES = 16;

export interface KeyHash {
  salt: Buffer;
  digest: Buffer;
}

/** The prefix lets scanners for leaked secrets recognize the key. */
export function newApiKey(): string {
  return `sida_${randomBytes(32).toString('base64url')}`;
}

export function hashKey(key: string, salt: Buffer = randomBytes(SALT_BYTES)): KeyHash {
  return { salt, digest: createHash('sha256').update(salt).update(key).digest() };
}

/** Compares the digests in constant time, so that the time reveals nothing about the stored key. */
export function isKey(key: string, { salt, digest }: KeyHash): boolean {
  return timingSafeEqual(hashKey(key, salt).digest, digest);
}
