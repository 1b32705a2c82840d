import type { Command } from 'commander';

/** Each is imported when it is named: all together take a second, which a user of one would wait for. */
export const COMMANDS: Readonly<Record<string, () => Promise<Command>>> = {
  serve: async () => (await import('./serve.js')).serveCommand(),
  worker: async () => (await import('./worker.js')).workerCommand(),
  ask: async () => (await import('./ask.js')).askCommand(),
  chat: async () => (await import('./chat.js')).chatCommand(),
  ps: async () => (await import('./ps.js')).psCommand(),
  pull: async () => (await import('./pull.js')).pullCommand(),
  models: async () => (await import('./models.js')).modelsCommand(),
  rm: async () => (await import('./models.js')).rmCommand(),
  convert: async () => (await import('./convert.js')).convertCommand(),
  packs: async () => (await import('./packs.js')).packsCommand(),
  plan: async () => (await import('./plan.js')).planCommand(),
  trace: async () => (await import('./trace.js')).traceCommand(),
  train: async () => (await import('./train.js')).trainCommand(),
  eval: async () => (await import('./eval.js')).evalCommand(),
  bench: async () => (await import('./bench.js')).benchCommand(),
  key: async () => (await import('./key.js')).keyCommand(),
  completion: async () => (await import('./completion.js')).completionCommand(),
  doctor: async () => (await import('./doctor.js')).doctorCommand(),
};
