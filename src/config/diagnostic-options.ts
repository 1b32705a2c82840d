/** Options of the profile and the log. */
import { option } from './option.js';
import { bytes, oneOf, text, wholeNumber } from './parsers.js';

export const DIAGNOSTIC_OPTIONS = {
  profile: option({
    flag: 'profile',
    value: '<file>',
    env: 'SIDA_PROFILE',
    default: null,
    help: 'records what every thread does and writes it here as a Chrome trace when the server ends; `sida profile <file>` sums it up',
    parse: text('a file', 'profile.json'),
  }),
  profileSeconds: option({
    flag: 'profile-seconds',
    value: '<s>',
    env: 'SIDA_PROFILE_SECONDS',
    default: null,
    unit: 'seconds',
    help: 'writes the profile after so long, and the server goes on; none: when it ends',
    parse: wholeNumber(1, 86_400, '10'),
  }),
  profileBytes: option({
    flag: 'profile-bytes',
    value: '<size>',
    env: 'SIDA_PROFILE_BYTES',
    default: '64MiB',
    unit: 'bytes',
    help: 'memory of a recording, about 50 bytes an event; what comes when it is full is dropped and counted',
    parse: bytes(64 * 1024, 128 * 1024 ** 2),
  }),
  logLevel: option({
    flag: 'log-level',
    value: '<level>',
    env: 'SIDA_LOG_LEVEL',
    default: 'info',
    help: 'least severe messages to log: trace, debug, info, warn, error, fatal or silent',
    parse: oneOf(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const),
  }),
};
