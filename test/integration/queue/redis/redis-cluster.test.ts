// A Redis Cluster of two nodes: the one that has the keys of sida holds the queue, the other one names it.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { eventually } from '../../../support/eventually.js';
import { freePort } from '../../../support/free-port.js';
import { describeWithRedis, RedisServer } from '../../../support/redis.js';
import { MINI, ServerProcess } from '../../../support/server-process.js';
import { SidaProcess } from '../../../support/sida-process.js';

const SMALL = ['--model', MINI, '--memory-budget', '50%', '--threads', '1', '--log-level', 'error'];
const node = async () =>
  RedisServer.start(['--cluster-enabled', 'yes', '--cluster-port', String(await freePort())]);

describeWithRedis('a Redis Cluster', () => {
  let nodes: [RedisServer, RedisServer];
  let owner: RedisServer;
  let other: RedisServer;
  beforeAll(async () => {
    nodes = [await node(), await node()];
    const [first, second] = nodes;
    await first.use((client) => client.call('CLUSTER', 'ADDSLOTSRANGE', '0', '8191'));
    await second.use((client) => client.call('CLUSTER', 'ADDSLOTSRANGE', '8192', '16383'));
    const bus = await second.use(async (client) => (await client.config('GET', 'cluster-port')) as string[]);
    await first.use((client) => client.call('CLUSTER', 'MEET', '127.0.0.1', String(second.port), bus[1]!));
    for (const each of nodes) {
      await eventually(
        () => each.use(async (client) => String(await client.cluster('INFO')).includes('cluster_state:ok')),
        'the cluster',
        30_000,
      );
    }
    const slot = await first.use((client) => client.cluster('KEYSLOT', '{sida}'));
    [owner, other] = slot < 8192 ? nodes : [second, first];
  }, 60_000);
  afterAll(() => Promise.all(nodes.map((each) => each.end())));

  it('holds the queue on the node that has its keys', async () => {
    const server = await ServerProcess.start([...SMALL, '--redis', owner.url, '--rate-limit', '100000']);
    const body = { task: 'sst2', input: 'a fine film' };
    expect((await server.post('/v1/classify', body)).status).toBe(200);
    const { body: job } = await server.post('/v1/jobs', { type: 'classify', ...body });
    await server.until(async () => (await server.get(`/v1/jobs/${job.id}`)).body.status === 'completed');
    expect(await server.stop()).toBe(0);
  });

  it.each([
    ['serve', SMALL],
    ['serve without a worker', ['--model', 'switch-mini', '--no-worker']],
    ['worker', SMALL],
  ])('is refused by sida %s at another node, which names the right one', async (what, args) => {
    const command = what.split(' ')[0]!;
    const port = command === 'serve' ? ['--port', String(await freePort())] : [];
    const sida = new SidaProcess([command, ...args, ...port, '--redis', other.url]);
    expect(await sida.exit).toBe(1);
    expect(sida.output).toContain(
      `sida: The Redis at redis://127.0.0.1:${other.port} is a node of a Redis Cluster that does not have sida's keys. ` +
        `Give the address of the node that has them: 127.0.0.1:${owner.port}`,
    );
  });
});
