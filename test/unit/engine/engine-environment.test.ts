import { expect, it } from 'vitest';
import { withoutSecrets } from '../../../src/engine/engine-environment.js';

const passed = (...names: string[]) =>
  Object.keys(withoutSecrets(Object.fromEntries(names.map((name) => [name, 'value']))));

it('passes on what a process that reads models can use', () => {
  const names = [
    ...['PATH', 'HOME', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR', 'NODE_OPTIONS', 'NODE_EXTRA_CA_CERTS'],
    ...['SIDA_ADDON', 'SIDA_ISA', 'SIDA_EMULATION_FAULT_FILE', 'SIDA_MAX_BATCH_TOKENS', 'SIDA_KV_TOKENS'],
    ...['LD_PRELOAD', 'LD_LIBRARY_PATH', 'OMP_NUM_THREADS', 'CUDA_VISIBLE_DEVICES', 'NVIDIA_VISIBLE_DEVICES'],
    ...['ASAN_OPTIONS', 'TSAN_OPTIONS', 'UBSAN_OPTIONS', 'LSAN_OPTIONS', 'FAKETIME', 'FAKETIME_SHARED'],
  ];
  expect(passed(...names)).toEqual(names);
});

it('keeps back what it need not know', () => {
  const names = [
    ...['SIDA_API_KEY', 'SIDA_API_KEYS', 'SIDA_REDIS', 'SIDA_REDIS_PASSWORD', 'NODE_AUTH_TOKEN'],
    ...['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY', 'AWS_SESSION_TOKEN', 'AWS_PROFILE', 'HF_TOKEN'],
    ...['PGPASSWORD', 'DB_PASSWORD', 'NVIDIA_API_KEY', 'GITHUB_TOKEN', 'http_proxy', 'SSH_AUTH_SOCK'],
    ...['DATABASE_URL', 'MY_PATH', 'PATH_SECRET', 'HOME_PASSWORD', 'LC_SECRET'],
  ];
  expect(passed(...names)).toEqual([]);
});
