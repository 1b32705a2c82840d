/** How answers are generated: flags of `ask` and `chat`, and what `/set` changes. */
import type { Command } from 'commander';
import { number, type Parser, wholeNumber } from '../../config/parsers.js';
import { parseFlag, UsageError } from '../../config/resolve.js';
import { nearest } from '../../text/nearest.js';

interface Setting {
  value: string;
  help: string;
  parse: Parser<number>;
}

/** By the names of the HTTP API. */
const SETTINGS = {
  max_tokens: {
    value: '<n>',
    help: 'most tokens of an answer',
    parse: wholeNumber(1, 1e6, '200'),
  },
  temperature: {
    value: '<x>',
    help: '0: the likeliest tokens',
    parse: number(0, 2, '0.7'),
  },
  top_p: {
    value: '<x>',
    help: 'draw from the likeliest tokens that together have this probability',
    parse: number(0.001, 1, '0.95'),
  },
  top_k: {
    value: '<n>',
    help: 'draw from this many likeliest tokens; 0: all',
    parse: wholeNumber(0, 1e6, '40'),
  },
  min_p: {
    value: '<x>',
    help: "draw from tokens with at least this share of the likeliest one's probability",
    parse: number(0, 1, '0.05'),
  },
  seed: {
    value: '<n>',
    help: 'the same seed gives the same answer',
    parse: wholeNumber(0, 999_999_999_999_999, '7'),
  },
} as const satisfies Record<string, Setting>;

export type SettingName = keyof typeof SETTINGS;
export type Settings = Partial<Record<SettingName, number>>;

export const SETTING_NAMES = Object.keys(SETTINGS) as SettingName[];

export function addSettings(command: Command): Command {
  for (const name of SETTING_NAMES) {
    const { value, help } = SETTINGS[name];
    command.option(`--${flagOf(name)} ${value}`, help);
  }
  return command;
}

/** Takes the settings out of a command's values. Throws UsageError. */
export function settingsOf(values: Record<string, unknown>): {
  settings: Settings;
  rest: Record<string, unknown>;
} {
  const settings: Settings = {};
  const rest = { ...values };
  for (const name of SETTING_NAMES) {
    const key = flagOf(name).replace(/-(.)/g, (_, letter: string) => letter.toUpperCase());
    const value = values[key];
    delete rest[key];
    if (value !== undefined) settings[name] = parseFlag(flagOf(name), SETTINGS[name].parse, String(value));
  }
  return { settings, rest };
}

/** Changes one setting; `default` takes it back. Throws UsageError. */
export function changeSetting(settings: Settings, given: string, value: string): void {
  const name = given.replaceAll('-', '_') as SettingName;
  if (!Object.hasOwn(SETTINGS, name)) {
    const meant = nearest(name, SETTING_NAMES);
    const hint = meant === undefined ? `there are ${SETTING_NAMES.join(', ')}` : `did you mean ${meant}?`;
    throw new UsageError(`${given} cannot be set; ${hint}`);
  }
  if (value === 'default') delete settings[name];
  else settings[name] = parseFlag(flagOf(name), SETTINGS[name].parse, value);
}

function flagOf(name: SettingName): string {
  return name.replaceAll('_', '-');
}
