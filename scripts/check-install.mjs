#!/usr/bin/env node
/**
 * Installs a packed package into an empty directory, with every package of the product as package-lock.json has it, and
 * its addon built from the sources in it. It compares what was installed with the lockfile, runs `sida --version` and
 * `sida doctor`, and serves one classification with the bundled model.
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

const read = (file) => JSON.parse(readFileSync(file, 'utf8'));
const lock = read(join(ROOT, 'package-lock.json')).packages;

/** The packages of the lockfile that the product needs, by their places, found as Node.js finds them. */
function productPackages() {
  const found = new Map();
  const waiting = [['', lock['']]];
  for (const [from, { dependencies, optionalDependencies }] of waiting) {
    for (const name of Object.keys({ ...dependencies, ...optionalDependencies })) {
      const place = placeOf(name, from);
      if (place === undefined && optionalDependencies?.[name] !== undefined) continue;
      if (place === undefined)
        throw new Error(`package-lock.json has no ${name}, which ${from || 'the product'} needs`);
      if (found.has(place)) continue;
      found.set(place, lock[place]);
      waiting.push([place, lock[place]]);
    }
  }
  return found;
}

function placeOf(name, from) {
  for (let folder = from; ; folder = folder.slice(0, Math.max(0, folder.lastIndexOf('/node_modules/')))) {
    const place = `${folder === '' ? '' : `${folder}/`}node_modules/${name}`;
    if (lock[place] !== undefined) return place;
    if (folder === '') return undefined;
  }
}

const product = productPackages();

/** A user's package, and a lockfile for it that holds the product's packages as the product's lockfile has them. */
function writePackageOfUser() {
  const { version, dependencies, bin, engines } = read(join(ROOT, 'package.json'));
  const user = { name: 'user', version, private: true, dependencies: { sida: `file:${tarball}` } };
  const sida = { version, resolved: `file:${tarball}`, hasInstallScript: true, dependencies, bin, engines };
  const packages = { '': user, 'node_modules/sida': sida, ...Object.fromEntries(product) };
  const lockfile = { name: 'user', version, lockfileVersion: 3, requires: true, packages };
  writeFileSync(join(folder, 'package.json'), JSON.stringify(user));
  writeFileSync(join(folder, 'package-lock.json'), JSON.stringify(lockfile));
}

/** Throws unless exactly the locked packages are installed, by version and integrity. */
function compareInstalled() {
  const installed = read(join(folder, 'node_modules/.package-lock.json')).packages;
  const faults = [];
  for (const [place, { version, integrity, optional }] of product) {
    const found = installed[place];
    if (found === undefined && optional) continue;
    if (found?.version !== version || found.integrity !== integrity) {
      const what = found === undefined ? 'nothing' : `${found.version} ${found.integrity}`;
      faults.push(`${place}: expected ${version} ${integrity}, found ${what}`);
    }
  }
  for (const place of Object.keys(installed)) {
    if (place !== 'node_modules/sida' && !product.has(place)) faults.push(`${place}: not in the lockfile`);
  }
  if (faults.length > 0)
    throw new Error(`the installed packages are not those of the lockfile:\n${faults.join('\n')}`);
  said(`${product.size} packages are installed with the versions and hashes of the lockfile`);
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

// The cuda device takes minutes to build and is not what is checked.
const env = { SIDA_CUDA: 'OFF', ...process.env, SIDA_PACK_DIR: join(folder, 'packs') };
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
  writePackageOfUser();
  const built = process.env.SIDA_ADDON === undefined ? [] : ['--ignore-scripts'];
  run('npm', ['install', '--prefer-offline', '--no-audit', '--no-fund', '--foreground-scripts', ...built]);
  compareInstalled();
  said(`installed ${built.length === 0 ? 'and built' : 'with the given addon'}`);
  const sida = join(folder, 'node_modules/.bin/sida');
  const { version } = read(join(ROOT, 'package.json'));
  const found = run(sida, ['--version']).trim();
  if (!found.includes(version)) throw new Error(`sida --version says ${found}, expected ${version}`);
  run(sida, ['doctor']);
  said('sida doctor finds nothing that fails');

  cpSync(join(folder, 'node_modules/sida/models/switch-words'), join(folder, 'model'), { recursive: true });
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
      body: JSON.stringify({ task: 'category', input: 'violin' }),
    });
  }
  const label = answer?.ok ? (await answer.json()).data[0].label : undefined;
  if (label !== 'artifact') throw new Error(`"violin" is of the category ${label}:\n${output}`);
  said('the installed server knows that a violin is an artifact');
} finally {
  if (server !== undefined && server.exitCode === null) {
    server.kill('SIGTERM');
    await once(server, 'exit');
  }
  rmSync(folder, { recursive: true, force: true });
}
