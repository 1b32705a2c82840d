// Writes build/sbom.json, a CycloneDX list of what the product is made of: the npm dependencies of the lockfile with
// their integrity, those that the page and the bundle contain, and the C++ code in native/third_party with the versions
// that its headers state. Needs a build.
//   npm run sbom
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '..');
const VENDORED = {
  nlohmann: {
    name: 'nlohmann/json',
    license: 'MIT',
    scope: 'required',
    header: 'detail/abi_macros.hpp',
    version: /NLOHMANN_JSON_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)/g,
  },
  doctest: {
    name: 'doctest/doctest',
    license: 'MIT',
    // Only the native tests include it.
    scope: 'excluded',
    header: 'doctest.h',
    version: /define DOCTEST_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)/g,
  },
};

const sbom = listed('--omit', 'dev');
/** `NAME - VERSION` of what Vite has put into our own files. */
const contained = new Set(
  ['bundle/licenses.md', 'dist/page/licenses.md'].flatMap((file) =>
    [...readFileSync(join(ROOT, file), 'utf8').matchAll(/^## (\S+ - \S+) \(/gm)].map(([, name]) => name),
  ),
);
const nameOf = ({ name, version }) => `${name} - ${version}`;
for (const part of sbom.components) contained.delete(nameOf(part));
for (const part of listed().components) {
  if (contained.delete(nameOf(part))) sbom.components.push({ ...part, properties: [] });
}
if (contained.size > 0) throw new Error(`not in the lockfile: ${[...contained].join(', ')}`);

const folder = join(ROOT, 'native/third_party');
for (const entry of readdirSync(folder)) {
  const known = VENDORED[entry];
  if (known === undefined) throw new Error(`native/third_party/${entry} is not in ${import.meta.filename}`);
  const text = readFileSync(join(folder, entry, known.header), 'utf8');
  const version = [...text.matchAll(known.version)].slice(0, 3).map(([, number]) => number);
  if (version.length !== 3) throw new Error(`${known.header} of ${known.name} states no version`);
  const purl = `pkg:github/${known.name}@v${version.join('.')}`;
  sbom.components.push({
    'bom-ref': purl,
    type: 'library',
    name: known.name,
    version: version.join('.'),
    scope: known.scope,
    purl,
    licenses: [{ license: { id: known.license } }],
    hashes: [{ alg: 'SHA-256', content: digest(join(folder, entry)) }],
  });
}

function listed(...options) {
  const args = [
    'sbom',
    '--sbom-format',
    'cyclonedx',
    '--package-lock-only',
    '--workspaces=false',
    ...options,
  ];
  const settings = { cwd: ROOT, encoding: 'utf8', maxBuffer: 1 << 26, stdio: ['ignore', 'pipe', 'inherit'] };
  return JSON.parse(execFileSync('npm', args, settings));
}

/** Of the names and bytes of all its files, in the order of the names. */
function digest(directory) {
  const hash = createHash('sha256');
  const files = readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((file) => file.isFile())
    .map((file) => join(file.parentPath, file.name))
    .sort();
  for (const file of files) hash.update(file.slice(directory.length)).update('\0').update(readFileSync(file));
  return hash.digest('hex');
}

mkdirSync(join(ROOT, 'build'), { recursive: true });
writeFileSync(join(ROOT, 'build/sbom.json'), `${JSON.stringify(sbom, null, 2)}\n`);
const unhashed = sbom.components.filter(({ hashes }) => hashes === undefined).map(({ name }) => name);
if (unhashed.length > 0) throw new Error(`no integrity of ${unhashed.join(', ')}`);
console.log(`build/sbom.json: ${sbom.components.length} components, each with a hash`);
