/**
 * The environment of processes that read models. They need neither the clients' key nor Redis, and a process that reads
 * files from outside must not hold them.
 */
export function withoutSecrets({
  SIDA_API_KEY: _,
  SIDA_REDIS: __,
  ...rest
}: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return rest;
}
