#!/usr/bin/env node
// Provides the native addon when the package is installed. Takes the prebuilt package of this platform if its version
// matches and its self-test passes. Otherwise builds build/addon: checks the tools, shows the compiler's progress, and
// says at the end what was built and how long it took.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '..');
const ADDON = 'build/addon/Release/sida.node';
const OLDEST_CMAKE = [3, 20];
const require = createRequire(import.meta.url);
const started = performance.now();

function end(reason) {
  console.error(`sida: the native addon was not built: ${reason}`);
  process.exit(1);
}

const runs = (command, args, input) => spawnSync(command, args, { input, encoding: 'utf8' });
const missing = (result) => result.error?.code === 'ENOENT';

/** Ends with one line that names the missing package. */
function checkTools() {
  const cmake = runs('cmake', ['--version']);
  if (missing(cmake)) end('cmake is missing (Debian and Ubuntu: apt-get install cmake)');
  const [major, minor] = (/version (\d+)\.(\d+)/.exec(cmake.stdout) ?? [0, 0, 0]).slice(1).map(Number);
  if (major < OLDEST_CMAKE[0] || (major === OLDEST_CMAKE[0] && minor < OLDEST_CMAKE[1]))
    end(`cmake ${major}.${minor} is too old, ${OLDEST_CMAKE.join('.')} or newer is needed`);
  const compiler = process.env.CXX ?? 'c++';
  const program = '#include <span>\n#include <thread>\nint main() { return std::span<int>().size(); }\n';
  const compiled = runs(compiler, ['-std=c++20', '-fsyntax-only', '-x', 'c++', '-'], program);
  if (missing(compiled))
    end(`the C++ compiler ${compiler} is missing (Debian and Ubuntu: apt-get install g++)`);
  if (compiled.status !== 0)
    end(
      `${compiler} cannot compile C++20 with its standard library; g++ 11 or newer and libstdc++'s headers are ` +
        `needed (Debian and Ubuntu: apt-get install g++)\n${compiled.stderr}`,
    );
  if (missing(runs('ninja', ['--version'])) && missing(runs('make', ['--version'])))
    end('make is missing (Debian and Ubuntu: apt-get install make)');
}

/** Whether the prebuilt addon that npm installed beside this package works here. */
function prebuiltWorks() {
  const name = `@sida/addon-${process.platform}-${process.arch}`;
  let path;
  try {
    path = require.resolve(name);
  } catch {
    return false;
  }
  const { version } = require('../package.json');
  const test = runs(process.execPath, [join(ROOT, 'scripts/addon-self-test.mjs'), path, version]);
  if (test.status === 0) console.log(`sida: ${name} ${version} passed its self-test, nothing to compile`);
  else
    console.error(
      `sida: ${name} does not work here, so the addon is compiled: ${test.signal ?? test.stderr.trim()}`,
    );
  return test.status === 0;
}

// SIDA_CUDA asks for a build with or without the cuda device.
if (process.env.SIDA_CUDA === undefined && prebuiltWorks()) process.exit(0);
checkTools();
const cmakeJs = require.resolve('cmake-js/bin/cmake-js');
const args = [
  'compile',
  '--log-level',
  'warn',
  '--out',
  'build/addon',
  '--parallel',
  String(availableParallelism()),
];
const { status } = spawnSync(process.execPath, [cmakeJs, ...args, ...process.argv.slice(2)], {
  cwd: ROOT,
  stdio: 'inherit',
});
if (status !== 0 || !existsSync(join(ROOT, ADDON))) end('the compiler or CMake failed; its message is above');
const cuda = require(join(ROOT, ADDON)).cuda().compiled;
const device = cuda ? 'with the cuda device' : 'for the CPU; with SIDA_CUDA=ON it gets the cuda device, too';
console.log(`sida: built ${ADDON} in ${Math.round((performance.now() - started) / 1000)} s, ${device}`);
