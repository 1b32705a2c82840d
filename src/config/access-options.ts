/** Options of access control: API keys, rate limit, allowed hosts and allowed origins. */
import { option } from './option.js';
import { apiKey, hostName, list, text, webOrigin, wholeNumber } from './parsers.js';

export const ACCESS_OPTIONS = {
  apiKey: option({
    flag: 'api-key',
    value: '<key>',
    env: 'SIDA_API_KEY',
    default: null,
    help: 'key that requests must carry as "Authorization: Bearer <key>". Prefer SIDA_API_KEY: flags show in process lists',
    parse: apiKey,
  }),
  apiKeys: option({
    flag: 'api-keys',
    value: '<file>',
    env: 'SIDA_API_KEYS',
    default: null,
    help: 'file of API keys, each with a name and scopes (infer, admin, metrics). It holds only their hashes; `sida key new` makes its lines. The server reads it again when it changes and on SIGHUP',
    parse: text('a file of keys', '/etc/sida/keys'),
  }),
  rateLimit: option({
    flag: 'rate-limit',
    value: '<n>',
    env: 'SIDA_RATE_LIMIT',
    default: null,
    unit: 'tokens a minute',
    help: 'tokens that each key (without keys, each client address) may use in a minute, prompts and completions together. Further requests get 429. Servers of one --redis count together',
    parse: wholeNumber(1, 1e12, '100000'),
  }),
  allowedHosts: option({
    flag: 'allowed-hosts',
    value: '<names>',
    env: 'SIDA_ALLOWED_HOSTS',
    default: null,
    help: 'more names that the Host header may carry, such as those of a proxy; separated by commas',
    parse: list(hostName),
  }),
  allowedOrigins: option({
    flag: 'allowed-origins',
    value: '<origins>',
    env: 'SIDA_ALLOWED_ORIGINS',
    default: null,
    help: "web origins, besides the server's own, whose pages may use the server; separated by commas",
    parse: list(webOrigin),
  }),
};
