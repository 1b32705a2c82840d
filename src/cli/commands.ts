import type { Command } from 'commander';

export interface CommandEntry {
  /** Its options and arguments, as the list of all commands shows them. */
  takes: string;
  about: string;
  /** Imports the command. All together take a second, which a user of one would wait for. */
  load(): Promise<Command>;
}

export const COMMANDS: Readonly<Record<string, CommandEntry>> = {
  serve: {
    takes: '[options] [models...]',
    about: 'Serve models over HTTP within a memory budget',
    load: async () => (await import('./serve.js')).serveCommand(),
  },
  worker: {
    takes: '[options]',
    about: 'Run jobs of servers that share a queue in Redis',
    load: async () => (await import('./worker.js')).workerCommand(),
  },
  experts: {
    takes: '[options] <model>',
    about: "Hold a share of a model's experts and compute them for servers on other machines",
    load: async () => (await import('./experts.js')).expertsCommand(),
  },
  ask: {
    takes: '[options] [model] [words...]',
    about: 'Ask a model one question and print its answer',
    load: async () => (await import('./ask.js')).askCommand(),
  },
  chat: {
    takes: '[options] [model]',
    about: 'Talk to a model, line by line, until the end of the input',
    load: async () => (await import('./chat.js')).chatCommand(),
  },
  ps: {
    takes: '[options]',
    about: 'Show which models a running server has loaded, and the memory that they hold',
    load: async () => (await import('./ps.js')).psCommand(),
  },
  pull: {
    takes: '<name>',
    about: 'Download a model from Hugging Face, or continue a download',
    load: async () => (await import('./pull.js')).pullCommand(),
  },
  models: {
    takes: '[options]',
    about: 'List the models that were downloaded',
    load: async () => (await import('./models.js')).modelsCommand(),
  },
  rm: {
    takes: '[options] <name>',
    about: 'Remove a model that was downloaded',
    load: async () => (await import('./models.js')).rmCommand(),
  },
  convert: {
    takes: '[options] <model>',
    about:
      'Pack a Hugging Face checkpoint or a GGUF file into blocks that can be read straight into the device',
    load: async () => (await import('./convert.js')).convertCommand(),
  },
  packs: {
    takes: '',
    about: 'Show or remove the packed models that were made on first use',
    load: async () => (await import('./packs.js')).packsCommand(),
  },
  plan: {
    takes: '[options] <model>',
    about: 'Show where every byte would go, and what a budget is worth',
    load: async () => (await import('./plan.js')).planCommand(),
  },
  trace: {
    takes: '[options] <model>',
    about:
      'Record the routing of every token of a data file, to train predictors and to replay cache policies',
    load: async () => (await import('./trace.js')).traceCommand(),
  },
  train: {
    takes: '[options] <trace...>',
    about: 'Train a predictor of experts on traces: networks and token table',
    load: async () => (await import('./train.js')).trainCommand(),
  },
  eval: {
    takes: '[options] [model]',
    about: 'Measure a predictor on data: hits, and fidelity of predicted mode',
    load: async () => (await import('./eval.js')).evalCommand(),
  },
  bench: {
    takes: '[args...]',
    about: 'Run the laboratory: measure systems side by side (in a checkout of the repository only)',
    load: async () => (await import('./bench.js')).benchCommand(),
  },
  key: {
    takes: '',
    about: 'Make API keys',
    load: async () => (await import('./key.js')).keyCommand(),
  },
  completion: {
    takes: '<shell>',
    about: 'Print a script that completes commands and flags',
    load: async () => (await import('./completion.js')).completionCommand(),
  },
  doctor: {
    takes: '[options] [model]',
    about: 'Check this machine, and whether a model fits and is fast on it',
    load: async () => (await import('./doctor.js')).doctorCommand(),
  },
};

export async function loadCommand(name: string): Promise<Command> {
  const { about, load } = COMMANDS[name]!;
  return (await load()).description(about);
}
