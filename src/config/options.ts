/**
 * Every option of `sida serve`, with its flag, default, unit and reason. A key of the configuration file is the flag
 * without its dashes.
 */
import { ENGINE_OPTIONS } from './engine-options.js';
import { SERVER_OPTIONS } from './server-options.js';

export const SERVE_OPTIONS = { ...ENGINE_OPTIONS, ...SERVER_OPTIONS };

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
  | 'expertPeers'
  | 'peerKey'
  | 'connectionsPerAddress'
  | 'firstTokenP95'
  | 'group'
  | 'keepAlive'
  | 'latencyP95'
  | 'maxQuote'
  | 'metricsPort'
  | 'profile'
  | 'rateLimit'
  | 'rateLimitBytes'
  | 'redis'
  | 'routingK'
  | 'tlsCert'
  | 'tlsKey'
  | 'tokensPerSecond';
