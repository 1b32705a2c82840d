// The images, compose.yaml and the manifests of Kubernetes name files, options and stages that there are.
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { SERVE_OPTIONS } from '../../../src/config/options.js';
import { REPO } from '../../support/sida-process.js';

const read = (file: string) => readFileSync(join(REPO, file), 'utf8');
const dockerfile = read('Dockerfile');
const stages = [...dockerfile.matchAll(/^FROM (\S+)(?: AS (\S+))?$/gm)].map(([, image, name]) => ({
  image,
  name,
}));
const options = Object.keys(SERVE_OPTIONS).map(
  (name) => `SIDA_${name.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`,
);
/** Names that are no options: the secrets of the server. */
const SECRETS = ['SIDA_API_KEY', 'SIDA_REDIS_PASSWORD'];

describe('Dockerfile', () => {
  it('names images with a version, and copies from stages above', () => {
    const above = new Set<string>();
    for (const { image, name } of stages) {
      if (!above.has(image!)) expect(image).toMatch(/^[a-z/]+:\d+[\w.-]*$/);
      if (name !== undefined) above.add(name);
    }
    for (const [, from] of dockerfile.matchAll(/^COPY --from=(\S+) /gm)) expect(above.has(from!)).toBe(true);
  });

  it('sets options that there are, and starts a file of the package', () => {
    const names = [...dockerfile.matchAll(/\b(SIDA_\w+)=/g)].map(([, name]) => name!);
    // SIDA_CUDA is read by the build of the addon.
    const unknown = names.filter((name) => ![...options, ...SECRETS, 'SIDA_CUDA'].includes(name));
    expect(unknown).toEqual([]);
    const entries = [...dockerfile.matchAll(/^ENTRYPOINT \["node", "(.*)"\]$/gm)].map(([, file]) => file);
    expect(new Set(entries)).toEqual(new Set(['bundle/cli/main.js']));
    expect(entries).toHaveLength(2);
    expect(JSON.parse(read('package.json')).bin.sida.replace('./', '')).toBe(entries[0]);
  });

  it('gets all tracked files that the build reads', () => {
    const tracked = execFileSync('git', ['ls-files'], { cwd: REPO, encoding: 'utf8' }).split('\n');
    const [all, ...lines] = read('.dockerignore').trim().split('\n');
    expect(all).toBe('*');
    const kept = lines.filter((line) => line.startsWith('!')).map((line) => line.slice(1));
    const within = (path: string, file: string) => file === path || file.startsWith(`${path}/`);
    for (const path of kept)
      expect(
        tracked.some((file) => within(path, file)),
        path,
      ).toBe(true);
    const left = lines.filter((line) => !line.startsWith('!'));
    const has = (file: string) =>
      kept.some((path) => within(path, file)) && !left.some((path) => within(path, file));
    const needed = ['CMakeLists.txt', 'native/CMakeLists.txt', 'native/devices.cmake', 'package-lock.json'];
    const scripts = [...read('package.json').matchAll(/"(?:install|prepare|build:\w+)": "(.*)"/g)];
    const files = scripts.flatMap(([, script]) => script!.match(/[\w./-]+\.(?:mjs|ts|json)\b/g) ?? []);
    for (const file of [...needed, ...files.filter((name) => !name.startsWith('bench/'))]) {
      expect(has(file), file).toBe(true);
      expect(existsSync(join(REPO, file)), file).toBe(true);
    }
    const model = /SIDA_MODEL=(\S+)/.exec(dockerfile)![1]!;
    expect(has(`${model}/config.json`)).toBe(true);
  });
});

interface Service {
  image: string;
  build?: string | { context: string; target: string };
  command?: string | string[];
  environment?: Record<string, string>;
  profiles?: string[];
  volumes?: string[];
  configs?: { source: string }[];
  deploy?: { resources?: { reservations: { devices: object[] } } };
}

describe('compose.yaml', () => {
  const { services, volumes, configs } = parse(read('compose.yaml')) as {
    services: Record<string, Service>;
    volumes: Record<string, null>;
    configs: Record<string, { file?: string }>;
  };

  it('names options, stages, volumes and files that there are', () => {
    for (const [
      name,
      { build, image, environment = {}, volumes: own = [], configs: files = [] },
    ] of Object.entries(services)) {
      const variables = Object.keys(environment).filter((variable) => variable.startsWith('SIDA_'));
      expect(variables.filter((each) => ![...options, ...SECRETS].includes(each))).toEqual([]);
      if (build === undefined) expect(image, name).toMatch(/:v?\d/);
      if (typeof build === 'object') expect(stages.some((stage) => stage.name === build.target)).toBe(true);
      for (const volume of own) expect(Object.keys(volumes), name).toContain(volume.split(':')[0]);
      for (const { source } of files) expect(Object.keys(configs), name).toContain(source);
    }
    for (const { file } of Object.values(configs))
      if (file) expect(existsSync(join(REPO, file)), file).toBe(true);
  });

  it('reserves a GPU in the profile gpu alone', () => {
    const withDevices = Object.entries(services).filter(([, { deploy }]) => deploy?.resources !== undefined);
    expect(withDevices.map(([name, { profiles }]) => [name, profiles])).toEqual([['gpu', ['gpu']]]);
    expect(services.gpu!.deploy!.resources!.reservations.devices).toEqual([
      { driver: 'nvidia', count: 1, capabilities: ['gpu'] },
    ]);
  });
});

interface Container {
  args?: string[];
  env: { name: string }[];
  ports: { name: string }[];
  volumeMounts: { name: string }[];
  resources: { limits: Record<string, unknown> };
  startupProbe: object;
  livenessProbe: object;
  readinessProbe: object;
}

const manifests = readdirSync(join(REPO, 'contrib/kubernetes')).map((file) => `contrib/kubernetes/${file}`);

describe.each(manifests)('%s', (file) => {
  const documents = parseAllDocuments(read(file));

  it('is YAML, and names options, commands, ports and volumes that there are', () => {
    for (const document of documents) {
      expect(document.errors).toEqual([]);
      const { kind, apiVersion, metadata, spec } = document.toJS();
      expect([typeof kind, typeof apiVersion, typeof metadata.name]).toEqual(['string', 'string', 'string']);
      if (kind !== 'Deployment') continue;
      expect(spec.selector.matchLabels).toEqual(spec.template.metadata.labels);
      const volumes = spec.template.spec.volumes.map(({ name }: { name: string }) => name);
      for (const container of spec.template.spec.containers as Container[]) {
        const unknown = container.env.filter(({ name }) => ![...options, ...SECRETS].includes(name));
        expect(unknown).toEqual([]);
        expect(['serve', 'worker', undefined]).toContain(container.args?.[0]);
        expect(container.volumeMounts.map(({ name }) => name).sort()).toEqual([...volumes].sort());
        for (const probe of ['startupProbe', 'livenessProbe', 'readinessProbe'] as const) {
          const { httpGet } = container[probe] as { httpGet: { path: string; port: string } };
          expect(['/health/live', '/health/ready']).toContain(httpGet.path);
          expect(container.ports.map(({ name }) => name)).toContain(httpGet.port);
        }
        const gpus = container.resources.limits['nvidia.com/gpu'];
        expect(gpus).toBe(file.endsWith('gpu.yaml') ? 1 : undefined);
        expect(container.env.some(({ name }) => name === 'SIDA_DEVICE')).toBe(gpus !== undefined);
      }
    }
  });
});
