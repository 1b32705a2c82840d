// The options of several models, from flags, environment and file.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { modelName } from '../../../src/checkpoint/gguf/gguf-path.js';
import { ENGINE_OPTIONS } from '../../../src/config/engine-options.js';
import { MODEL_OPTIONS } from '../../../src/config/model-options.js';
import type { OptionName } from '../../../src/config/options.js';
import { UsageError } from '../../../src/config/resolve.js';
import { resolveServedModels } from '../../../src/config/served-models.js';

const directory = mkdtempSync(join(tmpdir(), 'sida-models-'));
afterAll(() => rmSync(directory, { recursive: true }));

type Flags = Parameters<typeof resolveServedModels>[0]['flags'];
const resolve = (flags: Flags, env: NodeJS.ProcessEnv = {}) => resolveServedModels({ flags, env });
const AB = ['models/a', 'models/b'];

function configFile(content: unknown): string {
  const file = join(directory, 'sida.json');
  writeFileSync(file, JSON.stringify(content));
  return file;
}

describe('the list of models', () => {
  const named = (flags: Flags, env?: NodeJS.ProcessEnv) =>
    resolve(flags, env).models.map(({ name, options }) => [name, options.model]);

  it('comes from repeated flags, a variable with commas, or a list in the file', () => {
    const both = [
      ['a', 'models/a'],
      ['b', 'models/b'],
    ];
    expect(named({ model: AB })).toEqual(both);
    expect(named({}, { SIDA_MODEL: 'models/a,models/b' })).toEqual(both);
    expect(named({ config: configFile({ model: AB }) })).toEqual(both);
  });

  it('is one model as ever, which has the name that its engine finds', () => {
    expect(named({ model: 'models/a' })).toEqual([[undefined, 'models/a']]);
    expect(named({ model: ['models/a'] })).toEqual([[undefined, 'models/a']]);
    const odd = join(directory, 'a,b');
    mkdirSync(odd);
    expect(named({}, { SIDA_MODEL: odd })).toEqual([[undefined, odd]]);
  });

  it('names a pack after its checkpoint, except where workers hold it', () => {
    const pack = join(directory, 'x-packed');
    mkdirSync(pack);
    writeFileSync(join(pack, 'manifest.json'), JSON.stringify({ source: { name: 'x' } }));
    expect(named({ model: [pack, 'b'] })).toEqual([
      ['x', pack],
      ['b', 'b'],
    ]);
    expect(named({ model: [pack, 'b'], worker: 'none', redis: 'redis://h:1' })[0]).toEqual([
      'x-packed',
      pack,
    ]);
  });

  it('is an alias where a model has one', () => {
    expect(named({ model: ['p/a', 'b'], alias: ['b=org/c', 'a=d'] }).map(([name]) => name)).toEqual([
      'd',
      'org/c',
    ]);
    expect(resolve({ model: ['p/a'], alias: ['d'], keepAlive: '1min' }).models[0]!.name).toBe('d');
    expect(() => resolve({ model: ['p/a', 'b'], alias: ['c'] })).toThrow('have the same name, "c"');
    expect(() => resolve({ model: ['p/a'], alias: ['c d'] })).toThrow('"--alias"');
  });

  it('is that on the hub in the cache of its tools', () => {
    const snapshot = 'hub/models--acme--tiny-moe/snapshots/0123abcd';
    expect(modelName(join('/', snapshot))).toBe('acme/tiny-moe');
    expect(named({ model: [`/${snapshot}`, `/${snapshot}/tiny-Q4_0.gguf`] }).map(([name]) => name)).toEqual([
      'acme/tiny-moe',
      'tiny-Q4_0',
    ]);
  });

  it('has no name twice', () => {
    expect(() => resolve({ model: ['p/a', 'q/a/', 'b'] })).toThrow(UsageError);
    expect(() => resolve({ model: ['p/a', 'q/a/', 'b'] })).toThrow(
      'The models p/a and q/a/ have the same name, "a"',
    );
  });

  it('may not be empty', () => {
    expect(() => resolve({})).toThrow('The "--model" option is missing');
    expect(() => resolve({ model: ['a', ' '] })).toThrow(
      'Expected the "--model" option to be a model directory',
    );
  });
});

describe('an option', () => {
  it('is for all models, or as NAME=VALUE for one', () => {
    const { models } = resolve({ model: AB, queuedBatches: ['8', 'b=2'], predictor: ['a=none'] });
    expect(models.map(({ options: { queuedBatches, predictor } }) => [queuedBatches, predictor])).toEqual([
      [8, 'none'],
      [2, 'auto'],
    ]);
  });

  it('of an engine is one that each model may have, but for the place of the packs', () => {
    const engine = Object.keys(ENGINE_OPTIONS).filter((name) => !MODEL_OPTIONS.has(name as OptionName));
    expect(engine).toEqual(['model', 'packDir', 'checkTensors']);
    const { models } = resolve({ model: AB, prefixCache: ['b=off'] });
    expect(models.map(({ options }) => options.prefixCache)).toEqual(['per-key', 'off']);
  });

  it('falls back for each model to the variable and the file', () => {
    const config = configFile({ routing: ['b=predicted'], policy: 'lru' });
    const { models } = resolve(
      { model: AB, config, queuedBatches: 'a=1' },
      { SIDA_QUEUED_BATCHES: 'a=3,b=5' },
    );
    expect(
      models.map(({ options: { queuedBatches, routing, policy } }) => [queuedBatches, routing, policy]),
    ).toEqual([
      [1, 'exact', 'lru'],
      [5, 'predicted', 'lru'],
    ]);
  });

  it('may have a default that depends on the model', () => {
    const { models } = resolve({ model: AB, predictor: ['a=none'] });
    expect(models.map(({ options }) => options.routeAhead)).toEqual([0, 2]);
  });

  it('takes `=` in a path that begins with no name of a model', () => {
    const { models } = resolve({ model: AB, predictor: ['runs/lr=1/p', 'b=x=y'] });
    expect(models.map(({ options }) => options.predictor)).toEqual(['runs/lr=1/p', 'x=y']);
  });

  it('refuses the name of a model that is not served', () => {
    expect(() => resolve({ model: AB, queuedBatches: ['c=2'] })).toThrow(
      'The "--queued-batches" option names the model "c", which is not served: "a" and "b" are',
    );
  });

  it('refuses a list where one value belongs', () => {
    expect(() => resolve({ model: AB, config: configFile({ port: [1, 2] }) })).toThrow('"port" as [1,2]');
    expect(() => resolve({ model: 'a', config: configFile({ policy: ['lru', 'lfu'] }) })).toThrow(
      'to be one value, found 2',
    );
  });

  it('writes no two profiles into one file', () => {
    expect(() => resolve({ model: AB, profile: 'p.json' })).toThrow('--profile a=profile.json');
    expect(
      resolve({ model: AB, profile: ['b=p.json'] }).models.map(({ options }) => options.profile),
    ).toEqual([undefined, 'p.json']);
  });
});

describe('a memory budget', () => {
  const budgets = (flags: Flags, env?: NodeJS.ProcessEnv) => {
    const { models, sharedBudget } = resolve({ model: AB, ...flags }, env);
    return [sharedBudget, ...models.map(({ options }) => options.memoryBudget)];
  };

  it('that is a size is shared by all', () => {
    expect(budgets({ memoryBudget: '4MiB' })).toEqual([4 * 1024 ** 2, '4MiB', '4MiB']);
    expect(budgets({}, { SIDA_MEMORY_BUDGET: '4096' })[0]).toBe(4096);
  });

  it('that is a share, or has a name, is of one model', () => {
    expect(budgets({ memoryBudget: '25%' })).toEqual([undefined, '25%', '25%']);
    expect(budgets({ memoryBudget: ['a=2GiB', 'b=1GiB'] })).toEqual([undefined, '2GiB', '1GiB']);
    expect(budgets({ memoryBudget: ['a=2GiB', '30%'] })).toEqual([undefined, '2GiB', '30%']);
  });

  it('that the machine gives is for all models together', () => {
    expect(budgets({})).toEqual(['auto', 'auto', 'auto']);
    expect(budgets({ memoryBudget: 'auto' })).toEqual(['auto', 'auto', 'auto']);
    expect(() => budgets({ memoryBudget: ['a=2GiB'] })).toThrow(
      'auto for all models together, and a has another one of its own',
    );
  });

  it('is not both at a time', () => {
    expect(() => budgets({ memoryBudget: ['a=2GiB', '4GiB'] })).toThrow(
      'a size for all models together, and a has another one of its own',
    );
    expect(() => budgets({ memoryBudget: ['b=2GiB'] }, { SIDA_MEMORY_BUDGET: '4GiB' })).toThrow(UsageError);
  });

  it('of the only model is its own', () => {
    expect(resolve({ model: 'a', memoryBudget: '4MiB' }).sharedBudget).toBeUndefined();
  });
});
