/** Turns rows of the option table into flags of a command. */
import { type Command, Option as Flag } from 'commander';
import type { Option } from '../config/option.js';
import { type OptionName, SERVE_OPTIONS } from '../config/options.js';
import type { Sources } from '../config/resolve.js';

/** Flags of `repeated` may be given several times. */
export function addFlags(
  command: Command,
  names: readonly OptionName[],
  repeated: ReadonlySet<OptionName> = new Set(),
): Command {
  for (const name of names) {
    const flag = flagOf(SERVE_OPTIONS[name]);
    if (repeated.has(name))
      flag.argParser((value, before: unknown) => [...(Array.isArray(before) ? before : []), value]);
    command.addOption(flag);
  }
  return command.option(
    '--config <file>',
    'JSON file of options, keys as the flags without dashes (SIDA_CONFIG)',
  );
}

/** The flags given on the command line, keyed by the names of the option table. */
export function givenFlags(values: Record<string, unknown>): Sources['flags'] {
  const given: Sources['flags'] = {};
  for (const [name, option] of Object.entries(SERVE_OPTIONS) as [OptionName, Option<unknown>][]) {
    const value = values[flagOf(option).attributeName()];
    if (typeof value === 'string' || Array.isArray(value)) given[name] = value;
    else if (value === true && option.bare !== undefined) given[name] = option.bare;
  }
  if (typeof values.config === 'string') given.config = values.config;
  return given;
}

function flagOf(option: Option<unknown>): Flag {
  const fallback =
    option.defaultText ?? (typeof option.default === 'string' ? option.default : undefined) ?? 'none';
  const notes = [
    option.unit,
    option.default === undefined ? 'needed' : `default ${fallback}`,
    option.env,
  ].filter(Boolean);
  return new Flag(`--${option.flag} ${option.value}`, `${option.help} (${notes.join('; ')})`);
}
