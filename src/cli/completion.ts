/** `sida completion`: scripts with which shells complete commands and flags, made of the commands' definitions. */
import { Argument, Command } from 'commander';
import { printText } from '../text/print.js';

interface Completed {
  word: string;
  flags: string[];
  inner: Completed[];
  /** Values of its argument, where there are only some. */
  choices: string[];
}

export function completionCommand(): Command {
  return new Command('completion')
    .addArgument(new Argument('<shell>').choices(['bash', 'zsh']))
    .addHelpText(
      'after',
      '\nExamples:\n' +
        '  sida completion bash > ~/.local/share/bash-completion/completions/sida\n' +
        '  sida completion zsh > ~/.zfunc/_sida   (a directory of $fpath)',
    )
    .action((shell: 'bash' | 'zsh', _values: object, command: Command) => {
      const commands = command.parent!.commands.map(completed);
      const known: Completed[] = commands.filter(({ word }) => word !== 'version');
      known.push({ word: 'help', flags: [], inner: [], choices: commands.map(({ word }) => word) });
      const { before, after } = ENDS[shell];
      printText(`${[...before, ...bash(known), ...after].join('\n')}\n`);
    });
}

/** zsh runs scripts for bash itself. */
const ENDS = {
  bash: { before: [], after: ['complete -o default -F _sida sida'] },
  zsh: {
    before: ['#compdef sida', 'autoload -Uz bashcompinit && bashcompinit'],
    after: [
      'complete -o default -F _sida sida',
      'if [[ $funcstack[1] == _sida ]]; then _bash_complete -o default -F _sida; fi',
    ],
  },
};

function completed(command: Command): Completed {
  return {
    word: command.name(),
    flags: [...command.options.map(({ long }) => long!), '--help'],
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
  const words = (list: readonly string[]) => list.join(' ');
  const groups = commands.filter(({ inner }) => inner.length > 0);
  return [
    '_sida() {',
    `  local word=\${COMP_WORDS[COMP_CWORD]} place=\${COMP_WORDS[1]} position=$COMP_CWORD next= flags=`,
    `  case $place in ${groups.map(({ word }) => word).join(' | ')})`,
    `    ((position > 2)) && place+=" \${COMP_WORDS[2]}" && ((position--)) ;;`,
    '  esac',
    '  case $place in',
    ...places(commands).map(
      ({ path, at }) => `    "${path.join(' ')}") next="${words(next(at))}" flags="${words(at.flags)}" ;;`,
    ),
    '  esac',
    `  ((COMP_CWORD == 1)) && next="${words(commands.map(({ word }) => word))}" flags="--help --version"`,
    '  ((position > 2)) && next=',
    '  [[ $word == -* ]] && next=$flags',
    '  COMPREPLY=($(compgen -W "$next" -- "$word"))',
    '}',
  ];
}
