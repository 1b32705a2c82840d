#!/usr/bin/env node
/**
 * Installs a packed package as a user does: into an empty directory, from the lockfile's versions, with its addon built
 * from the sources in it. It then runs `sida --version` and `sida doctor`, and serves one classification with the
 * bundled model.
 *   node scripts/check-install.mjs sida-0.1.0.tgz
 * SIDA_ADDON names an addon that is built already, and saves the minutes that building takes.
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

const ROOT = join(import.meta.dirname, '..');
const tarball = resolve(process.argv[2]);
const folder = mkdtempSync(join(tmpdir(), 'sida-install-'));
const started = performance.now();
const said = (what) => console.log(`${what} (${Math.round((performance.now() - started) / 1000)} s)`);

/** The product's dependencies at the lockfile's versions, so that the check needs nothing new from the registry. */
function packageOfUser() {
  const { version, dependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  const { packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8'));
  const locked = {};
  for (const name of Object.keys(dependencies)) locked[name] = packages[`node_modules/${name}`].version;
  return {
    name: 'user',
    version,
    private: true,
    dependencies: { sida: `file:${tarball}` },
    overrides: locked,
  };
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

const env = { ...process.env, SIDA_PACK_DIR: join(folder, 'packs') };
const run = (command, args) =>
  execFileSync(command, args, {
    cwd: folder,
    env,
    encoding: 'utf8',
    maxBuffer: 1 << 26,
    stdio: ['ignore', 'pipe', 'inherit'],
  });

let server;
try {
  writeFileSync(join(folder, 'package.json'), JSON.stringify(packageOfUser()));
  const built = process.env.SIDA_ADDON === undefined ? [] : ['--ignore-scripts'];
  run('npm', ['install', '--prefer-offline', '--no-audit', '--no-fund', '--foreground-scripts', ...built]);
  said(`installed ${built.length === 0 ? 'and built' : 'with the given addon'}`);
  const sida = join(folder, 'node_modules/.bin/sida');
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  const found = run(sida, ['--version']).trim();
  if (!found.includes(version)) throw new Error(`sida --version says ${found}, expected ${version}`);
  run(sida, ['doctor']);
  said('sida doctor finds nothing that fails');

  cpSync(join(folder, 'node_modules/sida/models/switch-mini'), join(folder, 'model'), { recursive: true });
  const port = String(await freePort());
  server = spawn(sida, ['serve', '--model', 'model', '--memory-budget', '50%', '--port', port], {
    cwd: folder,
    env,
  });
  let output = '';
  for (const stream of [server.stdout, server.stderr]) stream.on('data', (text) => (output += text));
  const url = `http://127.0.0.1:${port}`;
  let answer;
  for (let tries = 0; tries < 600 && answer === undefined && server.exitCode === null; tries += 1) {
    await delay(100);
    if (!(await fetch(`${url}/health/ready`).catch(() => undefined))?.ok) continue;
    answer = await fetch(`${url}/v1/classify`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ task: 'sst2', input: 'a fine film' }),
    });
  }
  const label = answer?.ok ? (await answer.json()).data[0].label : undefined;
  if (label !== 'positive') throw new Error(`"a fine film" is ${label}:\n${output}`);
  said('the installed server classifies "a fine film" as positive');
} finally {
  if (server !== undefined && server.exitCode === null) {
    server.kill('SIGTERM');
    await once(server, 'exit');
  }
  rmSync(folder, { recursive: true, force: true });
}
