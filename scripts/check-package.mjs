#!/usr/bin/env node
/**
 * Packs the package as npm publishes it, and checks what a user gets: no laboratory and no tests, every module that
 * the build imports, an integrity of every locked dependency, and a server that runs once it is installed.
 *   npm run check:package
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { join } from 'node:path';
import { withoutIntegrity } from './lockfile.mjs';

const ROOT = join(import.meta.dirname, '..');
const OUT = join(ROOT, 'build/package');
const UNWANTED = /^(bench|dist\/bench|test\/(?!data\/)|native\/(bench|emulation|fuzz|test))\//;
const PLOTTING = /^(vega|vega-lite|d3|plotly|chart)/;
const faults = [];

rmSync(OUT, { recursive: true, force: true });
mkdirSync(OUT, { recursive: true });
const options = { cwd: ROOT, encoding: 'utf8', maxBuffer: 1 << 26 };
execFileSync('npm', ['run', '--silent', 'prepack'], { ...options, stdio: 'inherit' });
const packed = execFileSync(
  'npm',
  ['pack', '--ignore-scripts', '--json', '--pack-destination', OUT],
  options,
);
const [{ files, filename, size }] = JSON.parse(packed);
const paths = new Set(files.map(({ path }) => path));
for (const path of paths) if (UNWANTED.test(path)) faults.push(`${path} does not belong into the package`);

const { dependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
for (const name of Object.keys(dependencies)) {
  if (PLOTTING.test(name)) faults.push(`${name} is a plotting library`);
}

const { packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8'));
for (const path of withoutIntegrity(packages)) faults.push(`package-lock.json has no integrity of ${path}`);

const known = new Set([...Object.keys(dependencies), ...builtinModules]);
for (const path of paths) {
  if (!/^dist\/.*\.js$/.test(path)) continue;
  const text = readFileSync(join(ROOT, path), 'utf8');
  for (const [, name] of text.matchAll(/^(?:import|export)\s[\w*{}\s,$]*?(?:from )?'([^.'/][^']*)';/gm)) {
    const packageName = name
      .replace(/^node:/, '')
      .split('/')
      .slice(0, name.startsWith('@') ? 2 : 1)
      .join('/');
    if (!known.has(packageName)) faults.push(`${path} imports ${name}, which package.json does not name`);
  }
}
// The compiler leaves these to the build.
for (const file of readdirSync(join(ROOT, 'src'), { recursive: true })) {
}

if (faults.length === 0) {
  const install = [join(import.meta.dirname, 'check-install.mjs'), join(OUT, filename)];
  execFileSync(process.execPath, install, { ...options, stdio: 'inherit' });
}
rmSync(OUT, { recursive: true, force: true });
for (const fault of faults) console.error(fault);
console.log(`package: ${paths.size} files, ${(size / 1e6).toFixed(1)} MB, ${faults.length} faults`);
process.exitCode = faults.length > 0 ? 1 : 0;
