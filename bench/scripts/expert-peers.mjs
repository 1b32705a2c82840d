// What does an expert peer bring? Two network namespaces stand for two machines with one core each, and `tc netem` for
// the network between them. One holds half of the experts (`sida experts` does the same), the other decodes within
// half of the memory, in turn from its disk alone and with the peer. Needs root, iproute2 and two cores.
import { execFileSync, spawn } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';
import { loadAddon } from '../../dist/native/addon.js';
import { heldBy, partsByUse } from '../../dist/placement/shares.js';
import { readMeta } from '../../dist/trace/trace-file.js';
import { REPOSITORY } from '../dist/support/paths.js';
import { scriptProvenance } from '../dist/support/provenance.js';
import { optionsOf, resultFile, writeResult } from '../dist/support/script.js';

const HELP = `node bench/scripts/expert-peers.mjs [options]
  --pack DIR             of any model
  --budgets 50%          memory of the machine that decodes
  --networks 10GbE,1GbE
  --activations f32 --prompt 128 --chunk 64 --steps 200 --warm 16 --rounds 5  as in decoder-budgets.mjs
  --hold 17179869184     bytes of memory of the peer
  --trace DIR            parts the experts by use; default: by index
  --hold-only            be the peer
  --quick (--rounds 1 --networks 10GbE)
  --save NAME            the result is bench/results/NAME.json; default: only printed`;

/** Both directions together take the round trip. */
const NETWORKS = {
  '10GbE': { rate: '9440mbit', roundTripUs: 50 },
  '1GbE': { rate: '944mbit', roundTripUs: 150 },
};
const PASSED_ON = ['activations', 'prompt', 'chunk', 'steps', 'warm', 'rounds'];
const [HERE, THERE] = ['sida-here', 'sida-there'];
const PEER = '10.77.0.2:7500';

const values = optionsOf(HELP);

/** The peer's process: holds half of the experts until its input ends. */
async function hold() {
  const addon = loadAddon();
  const lossless = { experts: { dtype: 'f32' }, dense: { dtype: 'f32' } };
  const { shape } = addon.describePack({ config: values.pack, ...lossless });
  const { weights } = values.trace ? (await readMeta(values.trace)).model : {};
  const parts = values.trace && (await partsByUse(values.trace, 2, { name: '', weights, shape }));
  const held = heldBy({ number: 2, of: 2 }, shape, parts || undefined);
  const peer = new addon.ExpertPeer({
    ...{ pack: values.pack, held, budgetBytes: values.hold, threads: 1 },
    ...{ activations: values.activations, address: { host: '10.77.0.2', port: 7500 } },
  });
  while (peer.load(64) > 0);
  peer.start();
  console.log('holding');
  process.stdin.on('end', () => peer.close()).resume();
}

function setUp(network) {
  const { rate, roundTripUs } = NETWORKS[network];
  const ip = (...args) => execFileSync('ip', args, { stdio: ['ignore', 'inherit', 'inherit'] });
  for (const name of [HERE, THERE]) ip('netns', 'add', name);
  ip('link', 'add', 'sida0', 'netns', HERE, 'type', 'veth', 'peer', 'name', 'sida1', 'netns', THERE);
  [HERE, THERE].forEach((name, i) => {
    ip('-n', name, 'addr', 'add', `10.77.0.${i + 1}/24`, 'dev', `sida${i}`);
    ip('-n', name, 'link', 'set', `sida${i}`, 'up');
    const shape = (...kind) => execFileSync('tc', ['-n', name, 'qdisc', 'add', 'dev', `sida${i}`, 'root', ...kind]);
    try {
      shape('netem', 'delay', `${roundTripUs / 2}us`, 'rate', rate, 'limit', '100000');
    } catch {
      // A kernel without netem: the rate alone. The result has the round trip that the engine measured.
      shape('tbf', 'rate', rate, 'burst', '128kb', 'latency', '50ms');
    }
  });
}

function tearDown() {
  for (const name of [HERE, THERE]) {
    try {
      execFileSync('ip', ['netns', 'del', name], { stdio: 'ignore' });
    } catch {}
  }
}

/** A process of a machine: its namespace, and one core of this one. */
function onMachine(name, core, args, stdio) {
  const command = ['netns', 'exec', name, 'taskset', '-c', String(core), process.execPath, ...args];
  return spawn('ip', command, { stdio });
}

async function measure(network) {
  tearDown();
  setUp(network);
  const saved = `expert-peers-${network}.part`;
  const own = ['--pack', values.pack, '--activations', values.activations];
  const traced = values.trace ? ['--trace', values.trace] : [];
  const peer = onMachine(...[THERE, 1, [process.argv[1], ...own, '--hold', values.hold, '--hold-only', ...traced]], [
    'pipe',
    'pipe',
    'inherit',
  ]);
  try {
    await new Promise((resolve, reject) => {
      peer.stdout.once('data', resolve);
      peer.once('exit', () => reject(new Error('The peer ended')));
    });
    const passed = PASSED_ON.flatMap((name) => [`--${name}`, values[name]]);
    const script = `${REPOSITORY}bench/scripts/decoder-budgets.mjs`;
    const args = [...passed, '--threads', '1', '--budgets', values.budgets, '--expert-peers', PEER];
    const decoder = onMachine(HERE, 0, [script, '--pack', values.pack, ...args, '--save', saved], 'inherit');
    const code = await new Promise((resolve) => decoder.once('exit', resolve));
    if (code !== 0) throw new Error(`decoder-budgets.mjs ended with ${code}`);
    const { results } = JSON.parse(readFileSync(resultFile(saved), 'utf8'));
    return { network, ...NETWORKS[network], results };
  } finally {
    rmSync(resultFile(saved), { force: true });
    peer.stdin.end();
    await new Promise((resolve) => peer.once('exit', resolve));
    tearDown();
  }
}

if (values['hold-only']) await hold();
else {
  const networks = [];
  for (const network of values.networks.split(',')) {
    const measured = await measure(network);
    networks.push(measured);
    for (let i = 0; i < measured.results.length; i += 2) {
      const [alone, withPeer] = measured.results.slice(i, i + 2);
      const ratio = withPeer.decodeTokensPerSecond / alone.decodeTokensPerSecond;
      console.log(`${network}, simulated: ${alone.budget} with the peer ${ratio.toFixed(2)} x its disk alone`);
    }
  }
  if (values.save) writeResult(values.save, { ...scriptProvenance(), activations: values.activations, networks });
}
