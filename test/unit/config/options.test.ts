import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { engineConfig, weightChoices } from '../../../src/config/engine-config.js';
import { type OptionName, SERVE_OPTIONS } from '../../../src/config/options.js';
import { resolveOptions, resolveServeOptions, UsageError } from '../../../src/config/resolve.js';

const folder = mkdtempSync(join(tmpdir(), 'sida-options-'));
afterAll(() => rmSync(folder, { recursive: true }));

let files = 0;
function configFile(content: unknown): string {
  const path = join(folder, `${files++}.json`);
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content), { mode: 0o600 });
  return path;
}

type Flags = Partial<Record<OptionName | 'config', string>>;
const resolve = (flags: Flags = {}, env: NodeJS.ProcessEnv = {}) =>
  resolveServeOptions({ flags: { model: 'm', ...flags }, env });

describe('precedence', () => {
  const config = () => configFile({ port: 3, 'queued-batches': 3, policy: 'fifo' });

  it('is flag, environment, file, default', () => {
    const options = resolve({ port: '1', config: config() }, { SIDA_PORT: '2', SIDA_QUEUED_BATCHES: '2' });
    expect(options).toMatchObject({ port: 1, queuedBatches: 2, policy: 'fifo', queueBound: 512 });
  });

  it('reads the file of SIDA_CONFIG unless the flag names another', () => {
    expect(resolve({}, { SIDA_CONFIG: config() }).port).toBe(3);
    expect(resolve({ config: configFile({ port: 4 }) }, { SIDA_CONFIG: config() }).port).toBe(4);
  });

  it('takes former names behind the present ones', () => {
    const former = { SIDA_LOOKAHEAD: '2' };
    expect(resolve({}, former).queuedBatches).toBe(2);
    expect(resolve({}, { ...former, SIDA_QUEUED_BATCHES: '3' }).queuedBatches).toBe(3);
    expect(resolve({ config: configFile({ 'look-ahead-layers': 1 }) }).routeAhead).toBe(1);
  });

  it('treats an empty variable as unset', () => {
    expect(resolve({}, { SIDA_PORT: '' }).port).toBe(8080);
  });
});

describe('defaults', () => {
  it('are under the cache directory of the user', () => {
    expect(resolve({}, { XDG_CACHE_HOME: '/cache' }).packDir).toBe('/cache/sida/packs');
  });

  it('follow the options that they depend on', () => {
    expect(resolve({}).routeAhead).toBe(2);
    expect(resolve({ predictor: 'none' }).routeAhead).toBe(0);
    expect(resolve({ predictor: 'none', routeAhead: '3' }).routeAhead).toBe(3);
  });

  it('have environment names that are the flags in capitals', () => {
    for (const { flag, env } of Object.values(SERVE_OPTIONS)) {
      expect(env).toBe(`SIDA_${flag.replaceAll('-', '_').toUpperCase()}`);
    }
  });
});

describe('values', () => {
  it('keep sizes as written and turn times into milliseconds and rates into bytes per second', () => {
    const options = resolve({
      memoryBudget: '700MB',
      hostBudget: '25%',
      linkBandwidth: '12GB/s',
      linkLatencyMs: '20us',
      deadline: '1.5s',
      drain: '2m',
      maxInputBytes: '2KiB',
      batchWaitMs: '7',
    });
    expect(options).toMatchObject({
      memoryBudget: '700MB',
      hostBudget: '25%',
      linkBandwidth: 12e9,
      linkLatencyMs: 0.02,
      deadline: 1500,
      drain: 120_000,
      maxInputBytes: 2048,
      batchWaitMs: 7,
    });
  });

  it.each<[OptionName, string, RegExp]>([
    ['memoryBudget', '0', /"--memory-budget" option to be auto, or a size.*but got "0"; for example 2GiB/],
    ['memoryBudget', '101%', /"101%"/],
    ['memoryBudget', '-1', /"-1"/],
    ['hostBudget', 'lots', /"--host-budget"/],
    ['device', 'gpu', /cpu, cuda|cpu or cuda/],
    ['policy', 'random', /one of farthest-next-use, lru, lfu, fifo, expert-buffering, but got "random"/],
    ['policy', 'constructor', /one of farthest-next-use, lru/],
    ['queuedBatches', '0', /whole number from 1 to 64/],
    ['queuedBatches', '4.5', /whole number/],
    ['linkBandwidth', 'fast', /12GB\/s/],
    ['port', '65536', /from 0 to 65535/],
    ['port', '', /"--port"/],
    ['deadline', '0s', /time from 1ms/],
    ['deadline', '5 parsecs', /30s or 500ms/],
    ['deadline', '60', /time from 1ms to 86400s, but got "60"/],
    ['drain', '0x', /30s or 500ms/],
    ['batchWaitMs', '5x', /30s or 500ms/],
    ['maxInputBytes', '5MiB', /from 1 B to 4\.00 MiB/],
    ['host', 'a b', /an address or a host name/],
    ['logLevel', 'loud', /trace, debug/],
    ['rateLimit', '0', /a whole number from 1/],
    ['apiKeys', '', /a file of keys/],
    ['experts', 'int3', /one of auto, f32, bf16, bf16c, int8, int4/],
    ['dense', 'int4', /one of auto, f32, bf16, int8/],
    ['group', '48', /one of 32, 64, 128, but got "48"; for example 64/],
    ['group', '064', /one of 32, 64, 128/],
    ['activations', 'int4', /one of auto, f32, bf16, int8/],
    ['kv', 'int8', /one of f32, bf16/],
    ['kvWindows', '0', /a whole number from 1/],
    ['kvStates', '0', /a whole number from 1/],
    ['expertPeers', '10.0.0.6', /a host and a port, but got "10.0.0.6"; for example 10.0.0.6:7500/],
    ['expertPeers', '10.0.0.6:0', /a host and a port/],
    ['expertPeers', '10.0.0.6:7500,', /a host and a port/],
    ['expertPeers', 'a b:1', /an address or a host name/],
    ['model', '', /a model directory/],
  ])('refuses %s %j and says what the option expects', (name, value, message) => {
    expect(() => resolve({ [name]: value })).toThrow(UsageError);
    expect(() => resolve({ [name]: value })).toThrow(message);
  });

  it('names the source of a bad value', () => {
    expect(() => resolve({}, { SIDA_PORT: 'x' })).toThrow(/from SIDA_PORT/);
    const config = configFile({ port: 'x' });
    expect(() => resolve({ config })).toThrow(config);
  });

  it.each(['k\n', ' k', 'k ', 'schlüssel', '€', 'x'.repeat(513), 'a\tb'])(
    'refuses a key that no client can send: %j',
    (apiKey) => {
      expect(() => resolve({ apiKey })).toThrow(/printable ASCII characters/);
    },
  );

  it('never repeats a key', () => {
    expect(() => resolve({ apiKey: ' ' })).toThrow(/"--api-key" option to be a key of 1 to 512 [^"]*; for/);
  });

  it('requires a model', () => {
    expect(() => resolveServeOptions({ flags: {}, env: {} })).toThrow(
      /"--model" option is missing.*SIDA_MODEL/,
    );
  });
});

describe('configuration file', () => {
  it.each([
    ['not JSON', '{', /Cannot read/],
    ['a list', [], /to be a JSON object/],
    ['an unknown key', { prot: 1 }, /unknown key "prot"; did you mean "port"/],
    ['a prototype key', '{"__proto__": 1}', /unknown key/],
    ['a value that is neither text nor number', { port: [1] }, /a text or a number/],
    ['a key twice', '{"host": "127.0.0.1", "host": "0.0.0.0"}', /host: the key is there twice/],
    ['deep nesting', `{"port": ${'['.repeat(100_000)}${']'.repeat(100_000)}}`, /nested deeper than 64/],
    ['a number as API key', '{"api-key": 12345678901234567890}', /has "api-key"; a text is right/],
  ])('refuses %s', (_, content, message) => {
    expect(() => resolve({ config: configFile(content) })).toThrow(message);
  });

  it('must exist', () => {
    expect(() => resolve({ config: join(folder, 'none.json') })).toThrow(/Cannot read.*none\.json/);
  });

  it.each([
    ['of another type', { 'api-key': ['hunter2'] }],
    ['of another type', { redis: { url: 'redis://:hunter2@h' } }],
    ['without quotes', '{"api-key": hunter2}'],
    ['before a fault', '{"port": 1, "api-key": "hunter2" "host": "::1"}'],
  ])('never shows a secret: %s', (_, content) => {
    const config = configFile(content);
    expect(() => resolve({ config })).toThrow(UsageError);
    expect(() => resolve({ config })).not.toThrow(/unter2/);
  });

  it.each([{ 'api-key': 'a secret' }, { redis: 'redis://:password@127.0.0.1:6379' }])(
    'that holds %j is refused when others may read it',
    (content) => {
      const config = configFile(content);
      for (const mode of [0o644, 0o640, 0o660, 0o602]) {
        chmodSync(config, mode);
        expect(() => resolve({ config })).toThrow(`found mode 0${mode.toString(8)}; run: chmod 600`);
      }
      for (const mode of [0o600, 0o400]) {
        chmodSync(config, mode);
        expect(resolve({ config })).toMatchObject('redis' in content ? content : { apiKey: 'a secret' });
      }
    },
  );

  it('without secrets may be read by others', () => {
    const config = configFile({ port: 3, 'api-keys': 'keys' });
    chmodSync(config, 0o644);
    expect(resolve({ config })).toMatchObject({ port: 3, apiKeys: 'keys' });
  });
});

describe('an address that other machines can reach', () => {
  it.each(['0.0.0.0', '::', '192.168.1.5', 'example.org', '128.0.0.1'])('%s needs a key', (host) => {
    expect(() => resolve({ host })).toThrow(/SIDA_API_KEY/);
    expect(resolve({ host }, { SIDA_API_KEY: 'k' }).host).toBe(host);
    expect(resolve({ host, apiKeys: 'keys' }).host).toBe(host);
  });

  it.each(['127.0.0.1', '127.1.2.3', 'localhost', '::1', '[::1]'])('%s needs none', (host) => {
    expect(resolve({ host }).apiKey).toBeUndefined();
  });
});

it('resolves some options for commands that share them', () => {
  expect(
    resolveOptions(['maxBatchTokens', 'kvTokens'], {
      flags: { kvTokens: '96' },
      env: { SIDA_MAX_BATCH_TOKENS: '64' },
    }),
  ).toEqual({
    maxBatchTokens: 64,
    kvTokens: 96,
  });
});

describe('expert peers', () => {
  it('are hosts with ports', () => {
    expect(resolve({ expertPeers: 'box:1, 10.0.0.6:7500,[::1]:65535' }).expertPeers).toEqual([
      { host: 'box', port: 1 },
      { host: '10.0.0.6', port: 7500 },
      { host: '::1', port: 65535 },
    ]);
  });

  it('need the cpu device', () => {
    const given = resolve({ expertPeers: 'box:1', device: 'cuda' });
    expect(() => engineConfig(given)).toThrow(/"--expert-peers" option needs the cpu device/);
    expect(engineConfig(resolve({ expertPeers: 'localhost:1' })).expertPeers).toHaveLength(1);
  });

  it('on other machines need a key, and none is named twice', () => {
    const config = (expertPeers: string, peerKey?: string) =>
      engineConfig(resolve({ expertPeers, ...(peerKey !== undefined && { peerKey }) }));
    expect(() => config('[::1]:1,box:1')).toThrow(/names box, another machine, and there is no key/);
    expect(config('box:1', 'secret').peerKey).toBe('secret');
    expect(() => config('localhost:1,localhost:2,localhost:1')).toThrow(/names localhost:1 twice/);
  });
});

it('a predictor on the GPU needs a model there', () => {
  const config = (device: string) => engineConfig(resolve({ device, predictorDevice: 'cuda' }));
  expect(() => config('cpu')).toThrow(/"--predictor-device" option is cuda, .*: the device is cpu here/);
  expect(config('cuda').predictorDevice).toBe('cuda');
});

describe('element types', () => {
  const choices = (flags: Flags) => weightChoices(resolve(flags));

  it("are the checkpoint's own by default", () => {
    expect(choices({})).toEqual({ experts: 'auto', dense: 'auto' });
  });

  it('have groups of 64 with int4 by default', () => {
    expect(choices({ experts: 'int4' }).experts).toEqual({ dtype: 'int4', group: 64 });
    expect(choices({ experts: 'int4', group: '128', dense: 'int8' })).toEqual({
      experts: { dtype: 'int4', group: 128 },
      dense: 'int8',
    });
  });

  it.each(['auto', 'f32', 'bf16', 'int8'])('have no groups with %s', (experts) => {
    expect(() => choices({ experts, group: '64' })).toThrow(UsageError);
    expect(() => choices({ experts, group: '64' })).toThrow(/"--group" option is 64, .* experts are/);
  });
});

describe('options that need one another', () => {
  it('are --worker none and --redis', () => {
    expect(() => resolve({ worker: 'none' })).toThrow(/"--worker" option is none.*--redis/);
    const redis = 'rediss://user:secret@queue.example:6380/2';
    expect(resolve({ worker: 'none', redis })).toMatchObject({ worker: 'none', redis });
    const profile = 'profile.json';
    expect(() => resolve({ worker: 'none', redis, profile })).toThrow(/"--profile" option needs an engine/);
  });
});

describe('the URL of Redis', () => {
  it.each(['http://127.0.0.1', 'redis://', '127.0.0.1:6379', 'redis'])('cannot be %s', (redis) => {
    expect(() => resolve({ redis })).toThrow(/"--redis" option to be the URL of a Redis server/);
  });

  it('never shows its password', () => {
    expect(() => resolve({ redis: 'http://user:hunter2@host' })).not.toThrow(/hunter2/);
    expect(() => resolve({ redis: 'http://user:hunter2@host' })).toThrow(UsageError);
  });

  it.each(['redis://:p@ss/word@host:6379', 'redis://user:12?3@host', 'redis://user:12#3@host'])(
    'needs special characters of a password escaped: %s',
    (redis) => {
      expect(() => resolve({ redis })).toThrow(/special characters of a password written as %XX/);
    },
  );

  it.each(['redis://:p%2Fss@host:6379/1', 'redis://host:6379/', 'redis://host?family=6'])(
    'may be %s',
    (redis) => {
      expect(resolve({ redis })).toMatchObject({ redis });
    },
  );
});
