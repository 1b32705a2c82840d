import { describe, expect, it } from 'vitest';
import { parseHubName } from '../../../src/hub/hub-name.js';
import { chooseFiles } from '../../../src/hub/model-files.js';

const files = (...paths: string[]) => paths.map((path) => ({ path, size: 1 }));
const chosen = (name: string, ...paths: string[]) => {
  const { entry, files: found } = chooseFiles(parseHubName(name)!, files(...paths));
  return [entry, ...found.map(({ path }) => path)];
};

describe('the files of a checkpoint', () => {
  it('are its texts, and one file of weights or the index and its shards', () => {
    const texts = ['config.json', 'tokenizer.json', 'chat_template.jinja'];
    const shards = ['model.safetensors.index.json', 'model-00001-of-00001.safetensors'];
    const others = [
      'README.md',
      'consolidated.safetensors',
      'pytorch_model.bin',
      'onnx/model.safetensors',
      'x.gguf',
    ];
    expect(chosen('a/b', ...texts, ...shards, ...others)).toEqual(['.', ...texts, ...shards]);
    expect(chosen('a/b', ...texts, ...shards, 'model.safetensors')).toEqual([
      '.',
      ...texts,
      'model.safetensors',
    ]);
  });

  it('are those of PyTorch only where there are no safetensors', () => {
    const shards = ['pytorch_model.bin.index.json', 'pytorch_model-00001-of-00001.bin'];
    expect(chosen('a/b', 'config.json', ...shards, 'tf_model.h5')).toEqual(['.', 'config.json', ...shards]);
    expect(chosen('a/b', 'config.json', ...shards, 'pytorch_model.bin')).toEqual([
      '.',
      'config.json',
      'pytorch_model.bin',
    ]);
    expect(chosen('a/b', 'config.json', 'model.safetensors', 'pytorch_model.bin')).toEqual([
      '.',
      'config.json',
      'model.safetensors',
    ]);
  });

  it('are refused without weights that sida reads', () => {
    expect(() => chosen('a/b', 'config.json', 'tf_model.h5')).toThrow(
      'a/b: its repository has neither safetensors, pytorch_model.bin nor complete GGUF files',
    );
  });
});

describe('the files of a GGUF model', () => {
  const all = ['x-Q4_K_M.gguf', 'x-Q4_K_S.gguf', 'x-UD-Q4_K_XL.gguf', 'big/x-Q8_0-00001-of-00002.gguf'];
  const last = 'big/x-Q8_0-00002-of-00002.gguf';

  it.each([
    ['a/b:Q4_K_M', ['x-Q4_K_M.gguf']],
    ['a/b:q4_k_xl', ['x-UD-Q4_K_XL.gguf']],
    ['a/b:UD-Q4_K_XL', ['x-UD-Q4_K_XL.gguf']],
    ['a/b:x-Q4_K_S.gguf', ['x-Q4_K_S.gguf']],
    ['a/b:Q8_0', [all[3], last]],
    ['a/b:x-Q8_0-00002-of-00002.gguf', [all[3], last]],
  ])('%s', (name, paths) => {
    expect(chosen(name, last, ...all)).toEqual([paths[0], ...paths]);
  });

  it('are refused where the name leaves a choice, fits none, or a part is missing', () => {
    expect(() => chosen('a/b', ...all)).toThrow(/several GGUF files; name one of\n {2}a\/b:Q4_K_M {2}1 B\n/);
    expect(() => chosen('a/b:K_M', ...all)).not.toThrow();
    expect(() => chosen('a/b:Q4_K', ...all)).toThrow('no such GGUF file');
    expect(() => chosen('a/b:Q8_0', ...all)).toThrow('no such GGUF file');
  });

  it('is the only one', () => {
    expect(chosen('a/b', 'x.gguf', 'mmproj-x.gguf', 'config.json')).toEqual(['x.gguf', 'x.gguf']);
  });
});
