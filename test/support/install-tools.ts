/**
 * Global setup: installs redis-server, chromium, shells and proxies where they are missing and the user is root. It
 * runs once before all tests, because two apt-get installations at a time would block each other.
 */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

const APT = { stdio: 'ignore', timeout: 300_000 } as const;

export const CHROMIUM = process.env.SIDA_CHROMIUM ?? '/usr/bin/chromium';

export function hasRedis(): boolean {
  return spawnSync('redis-server', ['--version']).status === 0;
}

const VERSION = { nginx: '-v', caddy: 'version', openssl: 'version' } as const;

export function hasTool(tool: keyof typeof VERSION): boolean {
  return spawnSync(tool, [VERSION[tool]]).status === 0;
}

export default function installTools(): void {
  const missing = [
    ...(hasRedis() ? [] : ['redis-server']),
    ...(existsSync(CHROMIUM) ? [] : ['chromium']),
    ...['zsh', 'fish'].filter((shell) => spawnSync(shell, ['-c', 'true']).status !== 0),
    ...(['nginx', 'caddy', 'openssl'] as const).filter((tool) => !hasTool(tool)),
  ];
  if (missing.length === 0 || process.getuid?.() !== 0) return;
  const install = (tool: string) => spawnSync('apt-get', ['install', '-y', '-qq', tool], APT).status === 0;
  const failed = missing.filter((tool) => !install(tool));
  if (failed.length === 0) return;
  // A fresh machine has no package lists.
  spawnSync('apt-get', ['update', '-qq'], APT);
  for (const tool of failed) install(tool);
}
