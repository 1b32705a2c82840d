/**
 * Every option of `sida serve`, with its flag, environment name, default, unit and reason. A key of the configuration
 * file is the flag without its dashes. The help lists the options in this order.
 */
import { ACCESS_OPTIONS } from './access-options.js';
import { DIAGNOSTIC_OPTIONS } from './diagnostic-options.js';
import { ENGINE_OPTIONS } from './engine-options.js';
import { QUEUE_OPTIONS } from './queue-options.js';
import { SERVER_OPTIONS } from './server-options.js';

export const SERVE_OPTIONS = {
  ...ENGINE_OPTIONS,
  ...SERVER_OPTIONS,
  ...QUEUE_OPTIONS,
  ...ACCESS_OPTIONS,
  ...DIAGNOSTIC_OPTIONS,
};

export type OptionName = keyof typeof SERVE_OPTIONS;

/** Resolved options. Times are in milliseconds, rates in bytes per second. The two budgets stay as written. */
export type ServeOptions = {
  [K in Exclude<OptionName, Unset>]: ReturnType<(typeof SERVE_OPTIONS)[K]['parse']>;
} & { [K in Unset]: ReturnType<(typeof SERVE_OPTIONS)[K]['parse']> | undefined };

/** Options that stay undefined when they are not set. */
type Unset =
  | 'allowedHosts'
  | 'allowedOrigins'
  | 'apiKey'
  | 'apiKeys'
  | 'connectionsPerAddress'
  | 'group'
  | 'profile'
  | 'profileSeconds'
  | 'rateLimit'
  | 'redis';
