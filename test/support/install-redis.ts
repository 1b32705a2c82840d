/**
 * Global setup: installs redis-server when it is missing and the user is root. It runs once before all tests, because
 * two apt-get installations at a time would block each other.
 */
import { spawnSync } from 'node:child_process';

const APT = { stdio: 'ignore', timeout: 180_000 } as const;

export function hasRedis(): boolean {
  return spawnSync('redis-server', ['--version']).status === 0;
}

export default function installRedis(): void {
  if (hasRedis() || process.getuid?.() !== 0) return;
  const install = () => spawnSync('apt-get', ['install', '-y', '-qq', 'redis-server'], APT);
  // A fresh machine has no package lists.
  if (install().status === 0) return;
  spawnSync('apt-get', ['update', '-qq'], APT);
  install();
}
