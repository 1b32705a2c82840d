#!/usr/bin/env node
/**
 * Packs the packages as npm publishes them, and checks what a user gets: no laboratory, no tests and no models, every
 * module that the build imports, an integrity of every locked dependency, and a server that answers once it is
 * installed, with the prebuilt addon and with a compiled one.
 *   npm run check:package
 */
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { join } from 'node:path';
import { withoutIntegrity } from './lockfile.mjs';

const ROOT = join(import.meta.dirname, '..');
const OUT = join(ROOT, 'build/package');
const UNWANTED = /^(bench|dist\/bench|models|test|native\/(bench|fuzz|test))\//;
const MOST_BYTES = 3e6;
const PLOTTING = /^(vega|vega-lite|d3|plotly|chart)/;
const faults = [];

const options = { cwd: ROOT, encoding: 'utf8', maxBuffer: 1 << 26 };
rmSync(OUT, { recursive: true, force: true });
execFileSync(process.execPath, [join(import.meta.dirname, 'prebuild.mjs')], { ...options, stdio: 'inherit' });
const [addon, product] = ['sida-addon', 'sida-[0-9]'].map((start) =>
  join(
    OUT,
    readdirSync(OUT).find((file) => new RegExp(`^${start}.*\\.tgz$`).test(file)),
  ),
);
const { size } = statSync(product);
if (size > MOST_BYTES) faults.push(`${product} has ${size} bytes, at most ${MOST_BYTES} are wanted`);
const listed = execFileSync('tar', ['-tzf', product], options);
const paths = new Set(
  listed
    .trim()
    .split('\n')
    .map((path) => path.replace(/^package\//, '')),
);
for (const path of paths) if (UNWANTED.test(path)) faults.push(`${path} does not belong into the package`);

const { dependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
for (const name of Object.keys(dependencies)) {
  if (PLOTTING.test(name)) faults.push(`${name} is a plotting library`);
}

const { packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8'));
for (const path of withoutIntegrity(packages)) faults.push(`package-lock.json has no integrity of ${path}`);

const known = new Set([...Object.keys(dependencies), ...builtinModules]);
for (const path of paths) {
  if (!/^bundle\/.*\.js$/.test(path)) continue;
  const text = readFileSync(join(ROOT, path), 'utf8');
  for (const [, name] of text.matchAll(/^(?:import|export)\s[\w*{}\s,$]*?(?:from )?"([^."/][^"]*)";/gm)) {
    const packageName = name
      .replace(/^node:/, '')
      .split('/')
      .slice(0, name.startsWith('@') ? 2 : 1)
      .join('/');
    if (!known.has(packageName)) faults.push(`${path} imports ${name}, which package.json does not name`);
  }
}

for (const addons of faults.length === 0 ? [[addon], []] : []) {
  const install = [join(import.meta.dirname, 'check-install.mjs'), product, ...addons];
  execFileSync(process.execPath, install, { ...options, stdio: 'inherit' });
}
rmSync(OUT, { recursive: true, force: true });
for (const fault of faults) console.error(fault);
console.log(`package: ${paths.size} files, ${(size / 1e6).toFixed(1)} MB, ${faults.length} faults`);
process.exitCode = faults.length > 0 ? 1 : 0;
