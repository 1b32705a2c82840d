// How fast are streamed generations, and what does the server take from the engine? `sida serve` on loopback; 1 to 16
// clients in a process of their own, which shares the cores with the server. With all experts resident, the bare
// engine generates as many tokens after the same prompts, with as many sequences at a time. With fewer, experts come
// from disk.
import { availableParallelism } from 'node:os';
import { basename, join } from 'node:path';
import { convertCheckpoint } from '../../dist/checkpoint/converter.js';
import { LineProcess } from '../dist/support/line-process.js';
import { SCRIPTS } from '../dist/support/paths.js';
import { scriptProvenance } from '../dist/support/provenance.js';
import { nameOfSpeed, optionsOf, scratchDirectory, words, writeResult } from '../dist/support/script.js';
import { ServeProcess } from '../dist/support/serve-process.js';
import { sst2Texts } from '../dist/support/sst2.js';
import { mean, medians, quantile } from '../dist/support/statistics.js';
import { StepProgress } from '../dist/support/step-progress.js';
import { engineConfig } from '../dist/systems/engine-config.js';

const HELP = `node bench/scripts/streams.mjs [options]
  --model models/olmoe-mini    a decoder-only model with a tokenizer; its prompts are SST-2 sentences
  --pack DIR             in its place a pack, such as make-random-pack.mjs writes; its prompts are 32 drawn tokens
  --memory-budget 100%   of the server; below 100% there is no bare engine
  --clients 1,4,8,16
  --streams 32           of each round, for any number of clients
  --max-tokens 64
  --activations f32      of the server and of the bare engine
  --rounds 5             server and bare engine in turn
  --threads N
  --quick (--streams 4 --rounds 1)  the result goes to build/
  --save NAME            of the result: streams, or of a pack streams-pack
Processor times count all threads of a process. The result is bench/results/NAME.json, with AMX NAME-amx.json.`;

const options = optionsOf(HELP);
const { quick, model, activations, streams, rounds, 'max-tokens': maxTokens, 'memory-budget': budget } = options;
const threads = String(options.threads ?? availableParallelism());
const resident = budget === '100%';

const DRAWN_TOKENS = 32;
/** The shapes that are measured have more tokens. */
const VOCABULARY = 8192;

/** The same at each run: primes, so that the prompts share no beginning. */
function drawnPrompts() {
  const draw = (stream, at) => ((stream + 1) * 7919 + (at + 1) * 104_729 + stream * at * 31) % VOCABULARY;
  return Array.from({ length: streams }, (_, stream) =>
    Array.from({ length: DRAWN_TOKENS }, (_, at) => draw(stream, at)),
  );
}

/** As clients send them, and as the bare engine takes them. */
async function promptsOf(server) {
  if (options.pack !== undefined) {
    const prompts = drawnPrompts();
    return { prompts, ids: prompts };
  }
  const prompts = sst2Texts(streams);
  const tokenized = prompts.map((input) => server.post('/v1/tokenize', { input }));
  return { prompts, ids: (await Promise.all(tokenized)).map(({ data }) => data[0].ids) };
}

async function measure(pack) {
  // No stream may find the pages of an earlier round.
  const own = words`--memory-budget ${budget} --host-budget 0 --threads ${threads} --activations ${activations}`;
  const flags = words`--model ${pack} --kv f32 --prefix-cache off`;
  const server = await ServeProcess.start([...flags, ...own]);
  const client = new LineProcess('the clients', 'node', [`${SCRIPTS}rest/clients.mjs`]);
  const config = engineConfig({ model: pack, memoryBudget: budget, threads, activations });
  const given = JSON.stringify({ config, pack });
  const bare = resident
    ? new LineProcess('the bare engine', 'node', [`${SCRIPTS}rest/bare-engine.mjs`, given])
    : undefined;
  const moved = async () => (await server.metrics()).get('sida_experts_moved_bytes_total');
  try {
    const { prompts, ids } = await promptsOf(server);
    const usual = { max_tokens: maxTokens, temperature: 0, stream: true, return_token_ids: true };
    const bodies = prompts.map((prompt) => ({ prompt, ...usual }));
    const round = async (clients) => {
      const before = server.cpu();
      const movedBefore = await moved();
      const served = await client.ask({ port: server.port, path: '/v1/completions', bodies, clients });
      const { apiMs, engineMs } = server.cpu();
      const said = served.answers.map(({ tokens }) => tokens);
      const bytes = (await moved()) - movedBefore;
      const lengths = said.map(({ length }) => length);
      const alone = await bare?.ask({ prompts: ids, lengths, clients });
      if (alone && JSON.stringify(alone.tokens) !== JSON.stringify(said))
        throw new Error('The server and the bare engine say different tokens. This is a bug.');
      const tokens = said.flat().length;
      const first = served.answers.map(({ firstMs }) => firstMs);
      const between = served.answers.flatMap(({ betweenMs }) => betweenMs);
      return {
        firstP50Ms: quantile(first, 0.5),
        firstP99Ms: quantile(first, 0.99),
        betweenMeanMs: mean(between),
        betweenP99Ms: quantile(between, 0.99),
        tokens,
        perSecond: (1000 * tokens) / served.wallMs,
        bytesPerToken: bytes / tokens,
        // Of a token: what the others take the engine cannot have.
        clientCpuMs: served.cpuMs / tokens,
        apiCpuMs: (apiMs - before.apiMs) / tokens,
        engineCpuMs: (engineMs - before.engineMs) / tokens,
        ...(alone && {
          barePerSecond: (1000 * tokens) / alone.wallMs,
          shareOfBare: alone.wallMs / served.wallMs,
          bareCpuMs: alone.cpuMs / tokens,
        }),
      };
    };
    const counts = options.clients.split(',').map(Number);
    for (const clients of counts) await round(clients);
    const samples = counts.map(() => []);
    const progress = new StepProgress('streams', rounds);
    for (let i = 0; i < rounds; i += 1) {
      for (const [at, clients] of counts.entries()) samples[at].push(await round(clients));
      progress.step();
    }
    return counts.map((clients, i) => ({ clients, ...medians(samples[i]) }));
  } finally {
    await Promise.all([bare?.close(), client.close(), server.stop()]);
  }
}

const pack = options.pack ?? join(scratchDirectory(), basename(model));
if (options.pack === undefined) await convertCheckpoint({ model, out: pack, experts: 'auto', dense: 'auto' });
const runs = await measure(pack);
const result = {
  question: 'How fast are streamed generations, and what does the server take from the engine?',
  ...scriptProvenance(),
  ...{
    ...{ model: basename(options.pack ?? model), budget, activations, threads: Number(threads) },
    ...{ streams, maxTokens, rounds, runs },
  },
};
const name = options.save ?? (options.pack === undefined ? 'streams' : 'streams-pack');
writeResult(nameOfSpeed(name, result.isa), result, quick);
