/** Turns rows of the option table into flags of a command, and into its help. */
import { type Command, Option as Flag } from 'commander';
import { OPTION_GROUPS, type Option, shownDefault } from '../config/option.js';
import { type OptionName, SERVE_OPTIONS } from '../config/options.js';
import type { Sources } from '../config/resolve.js';

interface FlagChoices {
  /** Flags that may be given several times. */
  repeated?: ReadonlySet<OptionName>;
  /** Stand at the end of `--help-all`. */
  notes?: string;
  /** The only flags that `--help` lists. Default: all but those for experts. */
  shown?: readonly OptionName[];
}

export function addFlags(
  command: Command,
  names: readonly OptionName[],
  { repeated = new Set(), notes = '', shown }: FlagChoices = {},
): Command {
  const options: { option: Option<unknown>; flag: Flag }[] = [];
  for (const group of Object.keys(OPTION_GROUPS)) {
    for (const name of names.filter((each) => SERVE_OPTIONS[each].group === group)) {
      const option: Option<unknown> = SERVE_OPTIONS[name];
      const flag = flagOf(option);
      if (shown !== undefined) flag.hideHelp(!shown.includes(name));
      for (const each of [flag, formerFlagOf(option)]) {
        if (each === undefined) continue;
        if (repeated.has(name))
          each.argParser((value, before: unknown) => [...(Array.isArray(before) ? before : []), value]);
        command.addOption(each);
      }
      options.push({ option, flag });
    }
  }
  command.option('--config <file>', 'JSON file, keyed by flags (SIDA_CONFIG)');
  if (!options.some(({ flag }) => flag.hidden)) return command;
  return command
    .option('--help-all', 'every option, with units and environment names')
    .on('option:help-all', () => {
      for (const { option, flag } of options) {
        flag.hidden = false;
        flag.description = describe(option);
      }
      if (notes !== '') command.addHelpText('after', `\n${notes}`);
      command.help();
    });
}

/** The flags given on the command line, keyed by the names of the option table. */
export function givenFlags(values: Record<string, unknown>): Sources['flags'] {
  const given: Sources['flags'] = {};
  for (const [name, option] of Object.entries(SERVE_OPTIONS) as [OptionName, Option<unknown>][]) {
    const former = formerFlagOf(option)?.attributeName();
    const value = values[flagOf(option).attributeName()] ?? (former && values[former]);
    if (typeof value === 'string' || Array.isArray(value)) given[name] = value;
    else if (value === true && option.bare !== undefined) given[name] = option.bare;
  }
  if (typeof values.config === 'string') given.config = values.config;
  return given;
}

function flagOf(option: Option<unknown>): Flag {
  const fallback = typeof option.default === 'string' ? ` (${option.default})` : '';
  const flag = new Flag(`--${option.flag} ${option.value}`, `${option.help}${fallback}`);
  return flag.helpGroup(`${OPTION_GROUPS[option.group]}:`).hideHelp(option.expert === true);
}

function formerFlagOf({ formerly, value }: Option<unknown>): Flag | undefined {
  return formerly === undefined ? undefined : new Flag(`--${formerly} ${value}`).hideHelp();
}

function describe(option: Option<unknown>): string {
  const fallback = shownDefault(option);
  const notes = [
    option.unit,
    fallback === 'required' ? fallback : `default ${fallback ?? 'none'}`,
    option.env,
  ];
  const more = option.more === undefined ? '' : `. ${option.more}`;
  return `${option.help}${more} (${notes.filter(Boolean).join('; ')})`;
}
