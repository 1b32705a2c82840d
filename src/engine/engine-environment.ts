/**
 * The environment of processes that read models. A process that reads files from outside must not hold what its parent
 * may have for others: keys, passwords, tokens. So only variables that such a process can use are passed on.
 */
const ALLOWED = new RegExp(
  `^(?:${[
    ...['PATH', 'HOME', 'LANG', 'LANGUAGE', 'LC_\\w+', 'TZ', 'TZDIR', 'TMPDIR'],
    ...['NODE_\\w+', 'UV_\\w+', 'SIDA_\\w+'],
    // Of the loader, the C library and the threads.
    ...['LD_\\w+', 'GLIBC_TUNABLES', 'MALLOC_\\w+', 'OMP_\\w+', 'GOMP_\\w+', 'KMP_\\w+'],
    ...['CUDA_\\w+', 'NVIDIA_\\w+'],
    // Of tests, which run the engine under sanitizers and with other clocks.
    ...['(?:ASAN|LSAN|MSAN|TSAN|UBSAN)_\\w+', 'FAKETIME\\w*'],
  ].join('|')})$`,
);

/** Words of names whose values are secret, also behind a prefix that is allowed. */
const SECRET =
  /(?:^|_)(?:API|AUTH|CREDENTIALS?|KEYS?|PASS|PASSPHRASE|PASSWD|PASSWORD|REDIS|SECRETS?|TOKEN)(?:_|$)/;

export function withoutSecrets(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const passed = Object.entries(environment).filter(([name]) => ALLOWED.test(name) && !SECRET.test(name));
  return Object.fromEntries(passed);
}
