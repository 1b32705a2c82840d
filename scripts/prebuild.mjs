#!/usr/bin/env node
/**
 * Packs what is published: the addon built on this machine as `@sida/addon-linux-x64`, and `sida`, whose packed
 * package.json names the addons in build/package as optional dependencies. `npm install` of sida then takes the addon,
 * where it matches, and compiles one elsewhere.
 *   npm run prebuild                     → build/package/*.tgz
 *   npm run prebuild -- --arch arm64     cross-compiles with aarch64-linux-gnu-g++ (Debian: g++-aarch64-linux-gnu)
 */
import { execFileSync } from 'node:child_process';
import { copyFileSync, cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

const ROOT = join(import.meta.dirname, '..');
const OUT = join(ROOT, 'build/package');
const COMPILERS = { x64: 'x86_64-linux-gnu', arm64: 'aarch64-linux-gnu' };
const PROCESSORS = { x64: 'x86_64', arm64: 'aarch64' };
const { values } = parseArgs({ options: { arch: { type: 'string', default: process.arch } } });
const { arch } = values;
if (!Object.hasOwn(COMPILERS, arch)) throw new Error(`--arch: expected x64 or arm64, found ${arch}`);

const run = (command, args, options = {}) =>
  execFileSync(command, args, {
    cwd: ROOT,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
    ...options,
  });
const pack = (folder) =>
  JSON.parse(
    run('npm', ['pack', '--ignore-scripts', '--json', '--pack-destination', OUT], { cwd: folder }),
  )[0];
const json = (file, value) => writeFileSync(file, `${JSON.stringify(value, null, 2)}\n`);

/** The addon without the cuda device, which needs a toolkit of the user's own. Returns its path. */
function build() {
  const out = `build/addon-${arch}`;
  const own =
    arch === process.arch
      ? []
      : [
          '--CDCMAKE_SYSTEM_NAME=Linux',
          `--CDCMAKE_SYSTEM_PROCESSOR=${PROCESSORS[arch]}`,
          `--CDCMAKE_CXX_COMPILER=${COMPILERS[arch]}-g++`,
        ];
  const args = ['cmake-js', 'compile', '--log-level', 'warn', '--out', out, '--CDSIDA_CUDA=OFF', ...own];
  run('npx', args, { stdio: 'inherit' });
  return join(ROOT, out, 'Release/sida.node');
}

const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
const name = `@sida/addon-linux-${arch}`;

const addon = join(OUT, `addon-linux-${arch}`);
rmSync(addon, { recursive: true, force: true });
mkdirSync(addon, { recursive: true });
copyFileSync(build(), join(addon, 'sida.node'));
run(`${arch === process.arch ? '' : `${COMPILERS[arch]}-`}strip`, [
  '--strip-unneeded',
  join(addon, 'sida.node'),
]);
copyFileSync(join(ROOT, 'LICENSE'), join(addon, 'LICENSE'));
const { version, license } = manifest;
const description = `The native addon of sida for Linux on ${arch}, without the cuda device`;
json(join(addon, 'package.json'), {
  ...{ name, version, description, license, os: ['linux'], cpu: [arch], libc: ['glibc'], main: 'sida.node' },
  files: ['sida.node'],
});

const product = join(OUT, 'sida');
rmSync(product, { recursive: true, force: true });
run('npm', ['run', '--silent', 'prepack']);
for (const { path } of pack(ROOT).files) cpSync(join(ROOT, path), join(product, path));
// Only the packed package names the addons that are built: a checkout compiles its own.
const addons = Object.keys(COMPILERS).filter((each) =>
  existsSync(join(OUT, `addon-linux-${each}/package.json`)),
);
const optionalDependencies = Object.fromEntries(addons.map((each) => [`@sida/addon-linux-${each}`, version]));
json(join(product, 'package.json'), { ...manifest, optionalDependencies });
for (const folder of [addon, product]) {
  const { filename, size, entryCount } = pack(folder);
  console.log(`build/package/${filename}: ${entryCount} files, ${(size / 1e6).toFixed(1)} MB`);
}
