#!/usr/bin/env node
/**
 * Installs a packed package into an empty directory, with every package of the product as package-lock.json has it. Its
 * addon is the packed one that the second argument names, and without one it is compiled. It compares what was
 * installed with the lockfile, runs `sida --version` and `sida doctor`, and has the bundled models answer a
 * classification and a chat, of a server and of the library.
 *   node scripts/check-install.mjs sida-0.1.0.tgz [sida-addon-linux-x64-0.1.0.tgz]
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

const ROOT = join(import.meta.dirname, '..');
const [tarball, prebuilt] = process.argv.slice(2, 4).map((file) => resolve(file));
const ADDON = `@sida/addon-linux-${process.arch}`;
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
  const addon = prebuilt === undefined ? {} : { [ADDON]: `file:${prebuilt}` };
  const user = { name: 'user', version, private: true, dependencies: { sida: `file:${tarball}`, ...addon } };
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
    const own = place === 'node_modules/sida' || place === `node_modules/${ADDON}`;
    if (!own && !product.has(place)) faults.push(`${place}: not in the lockfile`);
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
  writePackageOfUser();
  run('npm', ['install', '--prefer-offline', '--no-audit', '--no-fund', '--foreground-scripts']);
  compareInstalled();
  const compiled = existsSync(join(folder, 'node_modules/sida/build/addon/Release/sida.node'));
  if (compiled !== (prebuilt === undefined))
    throw new Error(`the addon was ${compiled ? '' : 'not '}compiled, expected the opposite`);
  said(`installed, with ${compiled ? 'a compiled' : 'the prebuilt'} addon`);
  const sida = join(folder, 'node_modules/.bin/sida');
  const { version } = read(join(ROOT, 'package.json'));
  const found = run(sida, ['--version']).trim();
  if (!found.includes(version)) throw new Error(`sida --version says ${found}, expected ${version}`);
  run(sida, ['doctor']);
  said('sida doctor finds nothing that fails');

  const models = ['switch-words', 'olmoe-mini'];
  for (const model of models) cpSync(join(ROOT, 'models', model), join(folder, model), { recursive: true });
  const port = String(await freePort());
  server = spawn(sida, ['serve', ...models, '--memory-budget', '50%', '--port', port], { cwd: folder, env });
  let output = '';
  for (const stream of [server.stdout, server.stderr]) stream.on('data', (text) => (output += text));
  const url = `http://127.0.0.1:${port}`;
  const ready = async () => (await fetch(`${url}/health/ready`).catch(() => undefined))?.ok === true;
  for (let tries = 0; tries < 600 && server.exitCode === null && !(await ready()); tries += 1)
    await delay(100);
  const ask = async (path, body) => {
    const headers = { 'content-type': 'application/json' };
    const answer = await fetch(`${url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}\n${output}`);
    return answer.json();
  };
  const classified = await ask('/v1/classify', { model: 'switch-words', task: 'category', input: 'violin' });
  const { label } = classified.data[0];
  if (label !== 'artifact') throw new Error(`"violin" is of the category ${label}:\n${output}`);
  said('the installed server knows that a violin is an artifact');
  const messages = [{ role: 'user', content: 'What kind of thing is a violin?' }];
  const chat = await ask('/v1/chat/completions', { model: 'olmoe-mini', messages, max_tokens: 24 });
  if (chat.choices[0].message.content === '') throw new Error(`the chat's answer is empty:\n${output}`);
  said(`and chats: ${chat.choices[0].message.content}`);
  const program = `
    import { openEngine } from 'sida';
    const engine = await openEngine('olmoe-mini');
    const { choices } = await engine.chat({ messages: ${JSON.stringify(messages)}, max_tokens: 24 });
    console.log(choices[0].message.content);
    await engine.close();`;
  const answer = run(process.execPath, ['--input-type=module', '--eval', program]).trim();
  if (answer !== chat.choices[0].message.content) throw new Error(`the library answers ${answer}`);
  said('the library gives the same answer');
} finally {
  if (server !== undefined && server.exitCode === null) {
    server.kill('SIGTERM');
    await once(server, 'exit');
  }
  rmSync(folder, { recursive: true, force: true });
}
