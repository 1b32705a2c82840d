// Models by name, from a hub on 127.0.0.1: `sida pull`, `models`, `rm`, `plan`, `serve` and `ask` as processes.
import { spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { brotliDecompressSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../support/eventually.js';
import { freePort } from '../../support/free-port.js';
import { blobOf, COMMIT, HubServer, isLarge, refuse } from '../../support/hub-server.js';
import { REPO, ServerProcess } from '../../support/server-process.js';
import { ended, SidaProcess } from '../../support/sida-process.js';

const MODEL = 'acme/olmoe-mini';
const QUANTS = 'acme/olmoe-GGUF';
const SOURCE = join(REPO, 'models', 'olmoe-mini');
const FIXTURES = join(REPO, 'test', 'fixtures', 'gguf');
const READ = ['config.json', 'generation_config.json', 'tokenizer.json', 'tokenizer_config.json'];
const WEIGHTS = 'model.safetensors';

let hub: HubServer;
/** The address of a port that nobody listens on. */
let nobody: string;
const folder = mkdtempSync(join(tmpdir(), 'sida-hub-'));
const environment = { ...process.env };

const disk = join(folder, 'disk');
mkdirSync(disk);
const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=40m', 'tmpfs', disk]).status === 0;
if (!mounted) console.warn('SKIPPED: only root can mount the small disk that two tests fill');

beforeAll(async () => {
  hub = await HubServer.start();
  nobody = `http://127.0.0.1:${await freePort()}`;
  hub.publish(MODEL, SOURCE, [...READ, WEIGHTS, 'README.md', 'nouns.json']);
  const unpacked = (name: string) => brotliDecompressSync(readFileSync(join(FIXTURES, `${name}.gguf.br`)));
  hub.repos.set(
    QUANTS,
    new Map([
      ['README.md', Buffer.from('quantized')],
      ['olmoe-Q8_0.gguf', unpacked('olmoe.q8_0')],
      ['olmoe-Q4_0.gguf', unpacked('olmoe.q4_0')],
      ['mmproj-BF16.gguf', unpacked('olmoe.bf16')],
      ...[1, 2, 3].map((part): [string, Buffer] => [
        `qwen-BF16-0000${part}-of-00003.gguf`,
        unpacked(`qwen3_moe-split-0000${part}-of-00003`),
      ]),
    ]),
  );
  Object.assign(process.env, { HF_ENDPOINT: hub.url, HF_HUB_CACHE: join(folder, 'hub') });
  delete process.env.HF_TOKEN;
});
afterEach(() => {
  hub.reset();
  rmSync(join(folder, 'hub'), { recursive: true, force: true });
});
afterAll(async () => {
  if (mounted) spawnSync('umount', [disk]);
  await hub.stop();
  for (const name of ['HF_ENDPOINT', 'HF_HUB_CACHE', 'HF_TOKEN']) {
    if (environment[name] === undefined) delete process.env[name];
    else process.env[name] = environment[name];
  }
  rmSync(folder, { recursive: true });
});

const sida = (args: string[], env: NodeJS.ProcessEnv = {}) =>
  ended(args, { cwd: folder, env: { ...process.env, ...env } });

/** The GGUF file with one more key at its begin, whose text has at least `bytes`. Its data stays aligned. */
function withLongHead(file: Buffer, bytes: number): Buffer {
  const head = Buffer.from(file.subarray(0, 24));
  head.writeBigUInt64LE(head.readBigUInt64LE(16) + 1n, 16);
  const key = Buffer.from('general.description.');
  const number = (value: number) => {
    const written = Buffer.alloc(8);
    written.writeBigUInt64LE(BigInt(value));
    return written;
  };
  const type = Buffer.from([8, 0, 0, 0]);
  const length = bytes + 32 - ((bytes + 8 + key.length + type.length + 8) % 32);
  const entry = [number(key.length), key, type, number(length), Buffer.alloc(length, 'x')];
  return Buffer.concat([head, ...entry, file.subarray(24)]);
}

const repoOf = (repo: string, cache = join(folder, 'hub')) =>
  join(cache, `models--${repo.replace('/', '--')}`);
const snapshot = () => join(repoOf(MODEL), 'snapshots', COMMIT);
const weights = () => hub.repos.get(MODEL)!.get(WEIGHTS)!;
const partial = () => join(repoOf(MODEL), 'blobs', `${blobOf(weights())}.incomplete`);

/** Sends the first `bytes` of a file's rest, and breaks the connection. */
function breakAfter(bytes: number, times: number): void {
  hub.fault = ({ path, host, range }, response, content) => {
    if (!path.endsWith(WEIGHTS) || hub.url.endsWith(host) || times === 0) return false;
    times -= 1;
    const begin = Number(/\d+/.exec(range ?? '')?.[0] ?? 0);
    response.writeHead(206, { 'content-range': `bytes ${begin}-${content!.length - 1}/${content!.length}` });
    response.write(content!.subarray(begin, begin + bytes), () => response.destroy());
    return true;
  };
}

describe('sida pull', () => {
  it("downloads what sida reads into the layout of Hugging Face's cache", async () => {
    const { code, stdout, stderr } = await sida(['pull', MODEL]);
    expect(stderr).toMatch(
      /^acme\/olmoe-mini: 5 files, 28\.\d MiB, 28\.\d MiB to download from 127\.0\.0\.1:\d+\n/,
    );
    expect([code, stdout]).toEqual([0, `${MODEL} is in ${snapshot()}\nServe it: sida serve ${MODEL}\n`]);
    expect(readdirSync(snapshot()).sort()).toEqual([...READ, WEIGHTS].sort());
    for (const name of [...READ, WEIGHTS]) {
      const content = hub.repos.get(MODEL)!.get(name)!;
      expect(readlinkSync(join(snapshot(), name))).toBe(`../../blobs/${blobOf(content)}`);
      expect(readFileSync(join(snapshot(), name)).equals(content)).toBe(true);
    }
    expect(readFileSync(join(repoOf(MODEL), 'refs', 'main'), 'utf8')).toBe(COMMIT);
    // Git blobs as well as LFS files were among them.
    expect(new Set([...READ, WEIGHTS].map((name) => isLarge(hub.repos.get(MODEL)!.get(name)!))).size).toBe(2);
  });

  it('downloads nothing again', async () => {
    await sida(['pull', MODEL]);
    hub.reset();
    expect((await sida(['pull', `hf:${MODEL}`])).code).toBe(0);
    expect(hub.sentBytes).toBe(0);
  });

  it('sends HF_TOKEN to the hub, and to no host that it redirects to', async () => {
    expect((await sida(['pull', MODEL], { HF_TOKEN: 'secret' })).code).toBe(0);
    const stored = hub.askedFor(WEIGHTS);
    expect(stored.map(({ authorization }) => authorization)).toEqual([undefined]);
    const others = hub.asked.filter(({ host }) => hub.url.endsWith(host));
    expect(new Set(others.map(({ authorization }) => authorization))).toEqual(new Set(['Bearer secret']));
  });

  it('continues a transfer that breaks', async () => {
    breakAfter(5_000_000, 2);
    expect((await sida(['pull', MODEL])).code).toBe(0);
    const ranges = hub.askedFor(WEIGHTS).map(({ range }) => Number(/\d+/.exec(range!)![0]));
    expect(ranges).toHaveLength(3);
    expect(ranges[0]).toBe(0);
    expect(ranges[2]).toBeGreaterThan(ranges[1]!);
    expect(readFileSync(join(snapshot(), WEIGHTS)).equals(weights())).toBe(true);
  });

  it('keeps the part of a transfer that breaks again and again, and continues there', async () => {
    breakAfter(0, 100);
    const broken = await sida(['pull', MODEL]);
    expect([broken.code, broken.stderr]).toEqual([
      1,
      expect.stringMatching(/breaks off at 0 B of 28\.2 MiB; the part is kept/),
    ]);
    writeFileSync(partial(), weights().subarray(0, 7_000_000));
    hub.reset();
    expect((await sida(['pull', MODEL])).code).toBe(0);
    expect(hub.askedFor(WEIGHTS).map(({ range }) => range)).toEqual(['bytes=7000000-']);
  });

  it('continues after the process was killed', async () => {
    hub.fault = ({ path, host }, response, content) => {
      if (!path.endsWith(WEIGHTS) || hub.url.endsWith(host)) return false;
      response.writeHead(206, { 'content-range': `bytes 0-${content!.length - 1}/${content!.length}` });
      // The rest never comes.
      response.write(content!.subarray(0, 3_000_000));
      return true;
    };
    const killed = new SidaProcess(['pull', MODEL]);
    await eventually(() => statSync(partial(), { throwIfNoEntry: false })?.size === 3_000_000);
    await killed.kill();
    hub.reset();
    expect((await sida(['pull', MODEL])).code).toBe(0);
    expect(hub.askedFor(WEIGHTS).map(({ range }) => range)).toEqual(['bytes=3000000-']);
  });

  it('begins again where the server knows no ranges', async () => {
    mkdirSync(join(repoOf(MODEL), 'blobs'), { recursive: true });
    writeFileSync(partial(), Buffer.alloc(1_000_000, 1));
    hub.fault = ({ path, host }, response, content) => {
      if (!path.endsWith(WEIGHTS) || hub.url.endsWith(host)) return false;
      response.end(content);
      return true;
    };
    expect((await sida(['pull', MODEL])).code).toBe(0);
    expect(readFileSync(join(snapshot(), WEIGHTS)).equals(weights())).toBe(true);
  });

  it.each([WEIGHTS, 'tokenizer_config.json'])(
    'refuses a wrong checksum of %s, and removes the file',
    async (name) => {
      const content = hub.repos.get(MODEL)!.get(name)!;
      const wrong = Buffer.from(content);
      wrong[content.length - 1]! ^= 1;
      hub.fault = ({ path, host }, response) => {
        if (!path.endsWith(`/${name}`) || (isLarge(content) && hub.url.endsWith(host))) return false;
        response.end(wrong);
        return true;
      };
      const { code, stderr } = await sida(['pull', MODEL]);
      expect([code, stderr]).toEqual([
        1,
        expect.stringContaining(`sida: ${name}: checksum: expected ${blobOf(content)}, found `),
      ]);
      expect(
        readdirSync(join(repoOf(MODEL), 'blobs')).filter((blob) => blob.startsWith(blobOf(content))),
      ).toEqual([]);
      expect((await sida(['models'])).stdout).toMatch(/holds no models/);
    },
  );

  it('refuses more bytes than listed', async () => {
    hub.fault = ({ path }, response, content) => {
      if (!path.endsWith('/config.json')) return false;
      response.end(Buffer.concat([content!, Buffer.alloc(1)]));
      return true;
    };
    expect((await sida(['pull', MODEL])).stderr).toMatch(/config\.json: expected \d+ bytes, found more/);
  });

  it('waits as long as the hub asks', async () => {
    let refusals = 1;
    let last = 0;
    hub.fault = ({ path }, response) => {
      if (!path.includes('/revision/')) return false;
      if (refusals-- > 0) {
        last = performance.now();
        response.writeHead(429, { 'retry-after': '2' }).end();
        return true;
      }
      last = performance.now() - last;
      return false;
    };
    const { code, stderr } = await sida(['pull', MODEL]);
    expect([code, stderr]).toEqual([0, expect.stringContaining('Waits 2 s for 127.0.0.1')]);
    expect(last).toBeGreaterThan(1_900);
  });

  it('does not wait for hours', async () => {
    hub.fault = (_, response) => {
      response.writeHead(429, { 'retry-after': '7200' }).end();
      return true;
    };
    expect(await sida(['pull', MODEL])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('asks to wait 7200 s'),
    });
  });

  it.each([
    [401, /has no model acme\/olmoe-mini, or it is not public: check the name, or set HF_TOKEN/],
    [
      403,
      /does not give acme\/olmoe-mini to you: accept its terms at http\S+\/acme\/olmoe-mini, and set HF_TOKEN/,
    ],
    [404, /has no such model: not here/],
    [500, /answered 500: not here/],
  ])('explains a %i', async (status, message) => {
    hub.fault = (_, response) => {
      refuse(response, status, 'not here');
      return true;
    };
    expect(await sida(['pull', MODEL])).toMatchObject({ code: 1, stderr: expect.stringMatching(message) });
  });

  it('says that a hub cannot be reached, and that a text is no name', async () => {
    const away = await sida(['pull', MODEL], { HF_ENDPOINT: nobody });
    expect(away).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/Cannot reach 127\.0\.0\.1:\d+: connect ECONNREFUSED/),
    });
    // A mistyped path that looks like a name.
    for (const command of ['plan', 'serve'])
      expect(await sida([command, 'modles/olmoe-mini'], { HF_ENDPOINT: nobody })).toMatchObject({
        stderr: expect.stringMatching(
          /modles\/olmoe-mini: no such file or directory, and as a name of the hub: Cannot reach/,
        ),
      });
    for (const name of ['olmoe', '../up', 'a/b/c', 'a/..', 'a--b/c'])
      expect(await sida(['pull', name])).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('ORG/NAME'),
      });
  });

  it('refuses a listing with a path that leads out', async () => {
    hub.repos.set('evil/model', new Map([['../../out.gguf', Buffer.from('x')]]));
    expect(await sida(['pull', 'evil/model'])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('lists a bad file of evil/model: "../../out.gguf"'),
    });
  });
});

describe('sida pull of a GGUF file', () => {
  it.each([
    ['q8_0', ['olmoe-Q8_0.gguf']],
    ['BF16', [1, 2, 3].map((part) => `qwen-BF16-0000${part}-of-00003.gguf`)],
  ])('takes :%s', async (choice, files) => {
    expect((await sida(['pull', `${QUANTS}:${choice}`])).code).toBe(0);
    expect(readdirSync(join(repoOf(QUANTS), 'snapshots', COMMIT)).sort()).toEqual(files);
  });

  it('refuses a file in a subdirectory before it downloads anything', async () => {
    hub.repos.set(
      'acme/deep',
      new Map([['Q8_0/olmoe-Q8_0.gguf', hub.repos.get(QUANTS)!.get('olmoe-Q8_0.gguf')!]]),
    );
    const { code, stderr } = await sida(['pull', 'acme/deep:Q8_0']);
    expect([code, stderr]).toEqual([
      1,
      expect.stringContaining('Q8_0/olmoe-Q8_0.gguf lies in a subdirectory'),
    ]);
    expect(hub.sentBytes).toBe(0);
  });

  it('lists the files of a name that leaves a choice, or has none of them', async () => {
    for (const name of [QUANTS, `${QUANTS}:Q2_K`]) {
      const { code, stderr } = await sida(['pull', name]);
      expect(code).toBe(1);
      for (const quant of ['Q8_0', 'Q4_0', 'BF16'])
        expect(stderr).toMatch(new RegExp(`${QUANTS}:${quant} +[\\d.]+ KiB`));
      expect(stderr).not.toContain('mmproj');
    }
  });
});

describe('a full disk', () => {
  const env = { HF_HUB_CACHE: disk };
  const fill = join(disk, 'fill');

  it.runIf(mounted)('is noticed before the download, with both sizes', async () => {
    writeFileSync(fill, Buffer.alloc(20 << 20));
    const { code, stderr } = await sida(['pull', MODEL], env);
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/needs 28\.\d MiB, and the disk has 20\.0 MiB free/),
    ]);
    expect(hub.sentBytes).toBe(0);
  });

  it.runIf(mounted)('ends a download, which continues when there is room', async () => {
    rmSync(fill, { force: true });
    hub.fault = ({ path, host }) => {
      if (!path.endsWith(WEIGHTS) || hub.url.endsWith(host)) return false;
      writeFileSync(fill, Buffer.alloc(25 << 20));
      return false;
    };
    const { code, stderr } = await sida(['pull', MODEL], env);
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/model\.safetensors: the disk is full; 1\d\.\d MiB of 28\.2 MiB are kept/),
    ]);
    hub.reset();
    rmSync(fill);
    expect((await sida(['pull', MODEL], env)).code).toBe(0);
    expect(hub.askedFor(WEIGHTS).map(({ range }) => range)).not.toEqual(['bytes=0-']);
    const got = join(repoOf(MODEL, disk), 'snapshots', COMMIT, WEIGHTS);
    expect(readFileSync(got).equals(weights())).toBe(true);
  });
});

describe('a model by name', () => {
  it.each([
    ['serve', ['--port', 'x']],
    ['worker', ['--redis', 'redis://127.0.0.1:1', '--metrics-port', 'x']],
  ])('is not downloaded by sida %s with wrong options: %j', async (command, options) => {
    const { code } = await sida([command, '--model', MODEL, ...options]);
    expect([code, hub.asked]).toEqual([2, []]);
  });

  it('is pulled and served, then served and asked without a hub', async () => {
    const first = await ServerProcess.start([MODEL]);
    try {
      expect(first.output).toMatch(/28\.\d MiB to download/);
      expect((await first.get('/v1/models')).body.data.map(({ id }: { id: string }) => id)).toEqual([MODEL]);
    } finally {
      await first.stop();
    }
    const offline = { HF_ENDPOINT: nobody };
    const question = 'What kind of thing is a violin?';
    const [named, local] = await Promise.all([
      sida(['ask', MODEL, question], offline),
      sida(['ask', SOURCE, question], offline),
    ]);
    expect(named.code).toBe(0);
    expect(named.stdout).toBe(local.stdout);
    process.env.HF_ENDPOINT = offline.HF_ENDPOINT;
    try {
      const second = await ServerProcess.start([MODEL]);
      await second.stop();
    } finally {
      process.env.HF_ENDPOINT = hub.url;
    }
  });

  it.each([['ask', 'hello']])(
    'that is not in the cache is refused by %s with the command that gets it',
    async (command, ...more) => {
      const { code, stderr } = await sida([command, `${QUANTS}:Q4_0`, ...more]);
      expect([code, stderr]).toEqual([
        1,
        expect.stringMatching(new RegExp(`get it: sida pull ${QUANTS}:Q4_0\n$`)),
      ]);
      expect(hub.asked).toEqual([]);
    },
  );

  it('that is a local directory, or lies in one, is that directory', async () => {
    mkdirSync(join(folder, 'acme'));
    try {
      const { code, stderr } = await sida(['serve', MODEL, '--port', '0']);
      expect([code, stderr]).toEqual([4, expect.stringContaining('no such file or directory')]);
      expect(hub.asked).toEqual([]);
    } finally {
      rmSync(join(folder, 'acme'), { recursive: true });
    }
  });
});

describe('sida plan of a name', () => {
  const plan = async (...args: string[]) => {
    const { code, stdout, stderr } = await sida(['plan', ...args, '--json']);
    expect([code, stderr]).toEqual([0, '']);
    const { freeBytes: _, ...planned } = JSON.parse(stdout);
    return planned;
  };

  it('is that of the files, and reads little of them', async () => {
    expect(await plan(MODEL)).toEqual(await plan(SOURCE));
    expect(hub.sentBytes).toBeLessThan(2 << 20);
    expect(existsSync(repoOf(MODEL))).toBe(false);
  });

  it('is that of a GGUF file and its parts', async () => {
    const names = [`${QUANTS}:Q8_0`, `${QUANTS}:BF16`];
    const before = await Promise.all(names.map((name) => plan(name)));
    for (const name of names) expect((await sida(['pull', name])).code).toBe(0);
    expect(await Promise.all(names.map((name) => plan(name)))).toEqual(before);
  });

  it('reads on until a long head ends', async () => {
    const file = hub.repos.get(QUANTS)!.get('olmoe-Q8_0.gguf')!;
    const long = withLongHead(file, 1_500_000);
    hub.repos.set('acme/long', new Map([['olmoe.gguf', long]]));
    expect((await plan('acme/long')).plan).toEqual((await plan(`${QUANTS}:Q8_0`)).plan);
    expect(hub.askedFor('olmoe.gguf').map(({ range }) => range)).toEqual([
      'bytes=0-1048575',
      `bytes=1048576-${long.length - 1}`,
    ]);
  });

  it.each([SOURCE])('is that of the config alone: %s', async (source) => {
    const only = mkdtempSync(join(folder, 'config-'));
    for (const name of ['config.json', 'generation_config.json'])
      writeFileSync(join(only, name), readFileSync(join(source, name)));
    const weights = await plan(source);
    expect(weights.fromConfig).toBe(false);
    expect(await plan(only)).toEqual({ ...weights, fromConfig: true });
    hub.repos.set('acme/bare', new Map([['config.json', readFileSync(join(source, 'config.json'))]]));
    expect((await plan('acme/bare')).plan).toEqual(weights.plan);
    expect((await sida(['plan', only])).stdout).toContain('Planned from config.json alone');
  });
});

describe('sida models and sida rm', () => {
  it('list and remove models', async () => {
    for (const name of [MODEL, `${QUANTS}:Q8_0`, `${QUANTS}:BF16`]) await sida(['pull', name]);
    const listed = async () => JSON.parse((await sida(['models', '--json'])).stdout).models;
    const all = await listed();
    expect(all.map(({ name, format, family }: Record<string, string>) => [name, format, family])).toEqual([
      [`${QUANTS}:Q8_0`, 'gguf', 'olmoe'],
      [`${QUANTS}:BF16`, 'gguf', 'qwen3_moe'],
      [MODEL, 'safetensors', 'olmoe'],
    ]);
    expect(all[2].bytes).toBe(
      [...READ, WEIGHTS].reduce((sum, name) => sum + hub.repos.get(MODEL)!.get(name)!.length, 0),
    );
    expect((await sida(['models'])).stdout).toMatch(
      /acme\/olmoe-mini +safetensors +28\.\d MiB +olmoe +\d{4}-/,
    );

    expect(await sida(['rm', MODEL])).toMatchObject({ code: 2, stderr: expect.stringContaining('--yes') });
    const blob = realpathSync(join(repoOf(QUANTS), 'snapshots', COMMIT, 'olmoe-Q8_0.gguf'));
    expect((await sida(['rm', `${QUANTS}:Q8_0`, '--yes'])).stdout).toMatch(
      /^Removed acme\/olmoe-GGUF:Q8_0, [\d.]+ KiB/,
    );
    expect([existsSync(blob), (await listed()).length]).toEqual([false, 2]);
    await sida(['rm', `${QUANTS}:BF16`, '--yes']);
    await sida(['rm', MODEL, '--yes']);
    expect([existsSync(repoOf(QUANTS)), existsSync(repoOf(MODEL)), await listed()]).toEqual([
      false,
      false,
      [],
    ]);
    expect(await sida(['rm', MODEL, '--yes'])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('is not in'),
    });
  });

  it('leave out a checkpoint of which a shard is missing', async () => {
    await sida(['pull', MODEL]);
    rmSync(join(snapshot(), WEIGHTS));
    writeFileSync(
      join(snapshot(), 'model.safetensors.index.json'),
      JSON.stringify({
        weight_map: { a: 'model-00001-of-00002.safetensors', b: 'model-00002-of-00002.safetensors' },
      }),
    );
    writeFileSync(join(snapshot(), 'model-00001-of-00002.safetensors'), '');
    expect((await sida(['models'])).stdout).toMatch(/holds no models/);
    writeFileSync(join(snapshot(), 'model-00002-of-00002.safetensors'), '');
    expect((await sida(['models'])).stdout).toMatch(/acme\/olmoe-mini/);
  });
});
