/** `sida experts`: holds a share of a model's experts in memory, and computes them for servers with --expert-peers. */

import { setImmediate } from 'node:timers/promises';
import { Command } from 'commander';
import { preparePack } from '../checkpoint/prepare-pack.js';
import { withoutMargin } from '../config/budget.js';
import { WEIGHT_OPTIONS, weightChoices } from '../config/engine-config.js';
import { Expected, hostAndPort, isLoopback } from '../config/parsers.js';
import { resolveOptions, UsageError } from '../config/resolve.js';
import { peerIdentityOf } from '../engine/peer-log.js';
import { SidaError } from '../errors.js';
import { activationsOf } from '../inference/sizes.js';
import { freeMemory } from '../machine/free-memory.js';
import { loadAddon } from '../native/addon.js';
import type { ExpertPeer, PeerAddress } from '../native/addon-types.js';
import { heldBy, partsByUse, type Share } from '../placement/shares.js';
import { formatBytes, parseBytes } from '../text/bytes.js';
import { printJson, printLines, warnLines } from '../text/print.js';
import { VERSION } from '../version.js';
import { endProcess } from './exit.js';
import { addFlags, givenFlags } from './flags.js';
import { pulledModels } from './hub-models.js';
import { Progress } from './progress.js';
import { endOnSignals } from './signals.js';

const OPTIONS = ['packDir', 'memoryBudget', 'threads', 'activations', 'peerKey', ...WEIGHT_OPTIONS] as const;
/** Read at a time, so that a signal ends the loading soon. */
const EXPERTS_AT_A_TIME = 16;
const LOG_MS = 1000;
const MOST_SHARES = 64;

export function expertsCommand(): Command {
  const command = new Command('experts')
    .argument(
      '<model>',
      'the model that the servers serve, with the same --experts, --dense and --activations',
    )
    .requiredOption('--share <i/n>', 'which of n equal shares of the experts to hold, such as 1/2')
    .option(
      '--trace <dir>',
      'part the experts by a trace of `sida trace`, the same for all shares, so that peers are busy alike',
    )
    .option(
      '--listen <host:port>',
      'where servers find it; others than this machine need a key',
      '127.0.0.1:7500',
    )
    .option('--json', 'print the address and what is held as JSON')
    .addHelpText(
      'after',
      '\nIt computes on the CPU. Nothing is encrypted: use a network of your own, or WireGuard.\n' +
        '\nExamples:\n  sida experts models/olmoe-mini --share 2/2 --memory-budget 12GiB\n' +
        '  SIDA_PEER_KEY=… sida experts Qwen/Qwen3-30B-A3B --share 1/2 --listen 10.0.0.6:7500\n' +
        '  SIDA_PEER_KEY=… sida serve Qwen/Qwen3-30B-A3B --expert-peers 10.0.0.6:7500\n' +
        '  sida experts models/olmoe-mini --share 1/3 --trace traces/olmoe-mini',
    )
    .action(async (model: string, values: Record<string, unknown>) => endProcess(await hold(model, values)));
  return addFlags(command, OPTIONS);
}

async function hold(name: string, values: Record<string, unknown>): Promise<number> {
  const options = resolveOptions(OPTIONS, { flags: givenFlags(values), env: process.env });
  const { packDir, memoryBudget, threads, activations: wanted, peerKey } = options;
  const share = shareOf(String(values.share));
  const listen = addressOf(String(values.listen));
  if (!isLoopback(listen.host) && peerKey === undefined) {
    throw new UsageError(
      `The "--listen" option is ${listen.host}, which other machines can reach, and there is no key: set SIDA_PEER_KEY here and on the servers, or listen on 127.0.0.1`,
    );
  }
  const budgetBytes = memoryBudget === 'auto' ? withoutMargin(freeMemory('cpu')) : parseBytes(memoryBudget);
  if (budgetBytes === undefined) {
    throw new UsageError(
      `The "--memory-budget" option is ${memoryBudget}; --share says which part of the experts to hold, so a size is right, such as 12GiB`,
    );
  }
  const model = (await pulledModels([name]))[0]!;
  const progress = new Progress();
  const prepared = await preparePack({
    model,
    packDir,
    ...weightChoices(options),
    onProgress: progress.show.bind(progress),
    onLine: progress.say.bind(progress),
  });
  const { pack, fingerprint, formats } = prepared;
  const addon = loadAddon();
  const { shape } = addon.describePack({ config: pack, ...formats });
  const { trace } = values;
  const parts =
    typeof trace === 'string'
      ? await partsByUse(trace, share.of, { name: prepared.name, weights: prepared.identity.weights, shape })
      : undefined;
  const held = heldBy(share, shape, parts);
  if (!held.includes(1)) {
    const message = `share ${share.number}/${share.of} of ${prepared.name} has none of its ${count(held.length)} experts`;
    throw new SidaError({ code: 'cannot_run', message });
  }
  const activations = activationsOf({ activations: wanted, device: 'cpu' }, formats);
  const peer = new addon.ExpertPeer({
    ...{ pack, held, budgetBytes: Math.floor(budgetBytes), threads, activations, address: listen },
    ...(peerKey !== undefined && { peerKey }),
    peerIdentity: peerIdentityOf(fingerprint, activations),
  });
  const signals = endOnSignals(() => undefined);
  let ended = false;
  void signals.first.then(() => (ended = true));
  for (let left = peer.held; left > 0 && !ended; await setImmediate()) {
    left = peer.load(EXPERTS_AT_A_TIME);
    progress.show({ phase: 'load', done: peer.held - left, total: peer.held });
  }
  progress.stop();
  if (!ended) {
    peer.start();
    const at = `${listen.host.includes(':') ? `[${listen.host}]` : listen.host}:${peer.port}`;
    const { usedBytes } = peer;
    if (values.json === true)
      printJson({ address: at, held: peer.held, experts: held.length, bytes: usedBytes });
    else {
      printLines(
        `sida ${VERSION} holds ${count(peer.held)} of ${count(held.length)} experts of ${prepared.name} in ${formatBytes(usedBytes)}`,
        `Servers find them with --expert-peers ${at}`,
      );
    }
    const timer = setInterval(logOf(peer), LOG_MS);
    await signals.first;
    clearInterval(timer);
  }
  peer.close();
  signals.dispose();
  return signals.exitCode;
}

function logOf(peer: ExpertPeer): () => void {
  let before = peer.stats();
  const told = new Set<string>();
  return () => {
    const now = peer.stats();
    if (now.servers !== before.servers) warnLines(`Connected servers: ${now.servers}`);
    // Who is refused tries again each second.
    if (now.lastRefused !== '' && !told.has(now.lastRefused)) warnLines(`Refused ${now.lastRefused}`);
    told.add(now.lastRefused);
    before = now;
  };
}

const count = (number: number) => number.toLocaleString('en');

function shareOf(text: string): Share {
  const match = /^(\d{1,3})\/(\d{1,3})$/.exec(text);
  const share = { number: Number(match?.[1]), of: Number(match?.[2]) };
  if (match !== null && share.number >= 1 && share.number <= share.of && share.of <= MOST_SHARES)
    return share;
  throw new UsageError(
    `Expected the "--share" option to be a number and a count of shares, up to ${MOST_SHARES}, such as 1/2, but got ${JSON.stringify(text)}`,
  );
}

function addressOf(text: string): PeerAddress {
  try {
    return hostAndPort(0)(text);
  } catch (error) {
    if (!(error instanceof Expected)) throw error;
    throw new UsageError(
      `Expected the "--listen" option to be ${error.what}, such as ${error.example}, but got ${JSON.stringify(text)}`,
    );
  }
}
