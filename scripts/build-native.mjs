#!/usr/bin/env node
// Builds the native addon into build/addon: checks the tools first, shows the compiler's progress, and says at the end
// what was built and how long it took. `npm install` of a packed package hides all but the end.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '..');
const ADDON = 'build/addon/Release/sida.node';
const OLDEST_CMAKE = [3, 20];
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
  if (missing(compiled)) end(`the C++ compiler ${compiler} is missing (Debian and Ubuntu: apt-get install g++)`);
  if (compiled.status !== 0)
    end(
      `${compiler} cannot compile C++20 with its standard library; g++ 11 or newer and libstdc++'s headers are ` +
        `needed (Debian and Ubuntu: apt-get install g++)\n${compiled.stderr}`,
    );
  if (missing(runs('ninja', ['--version'])) && missing(runs('make', ['--version'])))
    end('make is missing (Debian and Ubuntu: apt-get install make)');
}

checkTools();
const cmakeJs = createRequire(import.meta.url).resolve('cmake-js/bin/cmake-js');
const args = ['compile', '--log-level', 'warn', '--out', 'build/addon', '--parallel', String(availableParallelism())];
const { status } = spawnSync(process.execPath, [cmakeJs, ...args, ...process.argv.slice(2)], {
  cwd: ROOT,
  stdio: 'inherit',
});
if (status !== 0 || !existsSync(join(ROOT, ADDON))) end('the compiler or CMake failed; its message is above');
const cuda = createRequire(import.meta.url)(join(ROOT, ADDON)).cuda().compiled;
const device = cuda ? 'with the cuda device' : 'for the CPU; with SIDA_CUDA=ON it gets the cuda device, too';
console.log(`sida: built ${ADDON} in ${Math.round((performance.now() - started) / 1000)} s, ${device}`);
