/** `sida completion`: scripts with which shells complete commands and flags, made of the commands' definitions. */
import { Argument, Command } from 'commander';
import { printText } from '../text/print.js';

interface Word {
  word: string;
  about: string;
}

interface Completed extends Word {
  flags: (Word & { takesValue: boolean })[];
  inner: Completed[];
  /** Values of its argument, where there are only some. */
  choices: string[];
}

/** zsh runs the script for bash. */
const SHELLS = { bash, zsh, fish };

export function completionCommand(): Command {
  return new Command('completion')
    .addArgument(new Argument('<shell>').choices(Object.keys(SHELLS)))
    .addHelpText(
      'after',
      '\nExamples:\n' +
        '  sida completion bash > ~/.local/share/bash-completion/completions/sida\n' +
        '  sida completion zsh > ~/.zfunc/_sida   (a directory of $fpath)\n' +
        '  sida completion fish > ~/.config/fish/completions/sida.fish',
    )
    .action((shell: keyof typeof SHELLS, _values: object, command: Command) => {
      const commands = command.parent!.commands.map(completed);
      const known: Completed[] = commands.filter(({ word }) => word !== 'version');
      const help = { word: 'help', about: 'Show what a command takes', flags: [], inner: [] };
      known.push({ ...help, choices: commands.map(({ word }) => word) });
      printText(`${SHELLS[shell](known).join('\n')}\n`);
    });
}

function completed(command: Command): Completed {
  const options = command.options.map(({ long, description, required, optional }) => ({
    word: long!,
    about: description,
    takesValue: required || optional,
  }));
  return {
    word: command.name(),
    about: command.description(),
    flags: [...options, { word: '--help', about: 'show help', takesValue: false }],
    inner: command.commands.map(completed),
    choices: command.registeredArguments.flatMap(({ argChoices }) => argChoices ?? []),
  };
}

/** All words behind `path`, and what completes there. */
function places(
  commands: readonly Completed[],
  path: readonly string[] = [],
): { path: string[]; at: Completed }[] {
  return commands.flatMap((at) => {
    const own = [...path, at.word];
    return [{ path: own, at }, ...places(at.inner, own)];
  });
}

/** The words that may stand directly behind a command. */
function next({ inner, choices }: Completed): string[] {
  return [...inner.map(({ word }) => word), ...choices];
}

function bash(commands: readonly Completed[]): string[] {
  const words = (list: readonly Word[]) => list.map(({ word }) => word).join(' ');
  const groups = commands.filter(({ inner }) => inner.length > 0);
  return [
    '_sida() {',
    `  local word=\${COMP_WORDS[COMP_CWORD]} place=\${COMP_WORDS[1]} position=$COMP_CWORD next= flags=`,
    `  case $place in ${groups.map(({ word }) => word).join(' | ')})`,
    `    ((position > 2)) && place+=" \${COMP_WORDS[2]}" && ((position--)) ;;`,
    '  esac',
    '  case $place in',
    ...places(commands).map(
      ({ path, at }) => `    "${path.join(' ')}") next="${next(at).join(' ')}" flags="${words(at.flags)}" ;;`,
    ),
    '  esac',
    `  ((COMP_CWORD == 1)) && next="${words(commands)}" flags="--help --version"`,
    '  ((position > 2)) && next=',
    '  [[ $word == -* ]] && next=$flags',
    '  COMPREPLY=($(compgen -W "$next" -- "$word"))',
    '}',
    'complete -o default -F _sida sida',
  ];
}

function zsh(commands: readonly Completed[]): string[] {
  return [
    '#compdef sida',
    'autoload -Uz bashcompinit && bashcompinit',
    ...bash(commands),
    'if [[ $funcstack[1] == _sida ]]; then _bash_complete -o default -F _sida; fi',
  ];
}

function fish(commands: readonly Completed[]): string[] {
  const line = (when: string, rest: string, about: string) =>
    `complete -c sida -n ${quoted(when)} ${rest} -d ${quoted(about)}`;
  const seen = (path: readonly string[]) =>
    path.map((word) => `__fish_seen_subcommand_from ${word}`).join('; and ');
  return [
    ...commands.map(({ word, about }) => line('__fish_use_subcommand', `-f -a ${word}`, about)),
    ...places(commands).flatMap(({ path, at }) => [
      ...at.inner.map(({ word, about }) => line(seen(path), `-f -a ${word}`, about)),
      ...at.choices.map((word) => line(seen(path), `-f -a ${word}`, '')),
      ...at.flags.map(({ word, about, takesValue }) =>
        line(seen(path), `-l ${word.replace('--', '')}${takesValue ? ' -r' : ''}`, about),
      ),
    ]),
  ];
}

/** Quotes as fish reads them: there, a backslash escapes within single quotes. */
function quoted(text: string): string {
  return `'${text.replace(/[\\']/g, '\\$&')}'`;
}
