/** Options of the profile and the log. */
import { option } from './option.js';
import { bytes, oneOf, text, wholeNumber } from './parsers.js';

export const DIAGNOSTIC_OPTIONS = {
  profile: option({
    flag: 'profile',
    value: '<file>',
    env: 'SIDA_PROFILE',
    default: null,
    help: 'record what every thread does, and write it to this file as a Chrome trace when the server ends; ui.perfetto.dev draws it',
    parse: text('a file', 'profile.json'),
  }),
  profileSeconds: option({
    flag: 'profile-seconds',
    value: '<s>',
    env: 'SIDA_PROFILE_SECONDS',
    default: null,
    unit: 'seconds',
    help: 'write the profile after this time, and go on serving; none: write it when the server ends',
    parse: wholeNumber(1, 86_400, '10'),
  }),
  profileBytes: option({
    flag: 'profile-bytes',
    value: '<size>',
    env: 'SIDA_PROFILE_BYTES',
    default: '64MiB',
    unit: 'bytes',
    help: 'memory for the recording, about 50 bytes per event. When it is full, further events are dropped and counted',
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
