// What a server answers while hundreds of connections are open.
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { LIMITS } from '../../../src/server/limits.js';
import { type Answer, TestServer } from './test-server.js';

const PROBES = ['/health/live', '/health/ready', '/v1/models', '/nothing'];

let server: TestServer;
const crowd: Socket[] = [];
beforeAll(async () => {
  server = await TestServer.start();
});
afterAll(async () => {
  for (const socket of crowd) socket.destroy();
  await server.close();
});

async function gather(): Promise<void> {
  for (let i = 0; i < LIMITS.connectionsOfAllAtEase + 50; i += 1) {
    const socket = connect({ host: '127.0.0.1', port: server.running.port });
    crowd.push(socket);
    await once(socket, 'connect');
  }
}

const told = ({ status, text, headers }: Answer) => ({
  status,
  text,
  type: headers['content-type'],
  kept: headers['cache-control'],
  sniffed: headers['x-content-type-options'],
  retry: headers['retry-after'],
});

/** Ids and times differ from answer to answer. */
async function answer(path: string) {
  const { text, ...rest } = told(await server.ask(path));
  return { ...rest, text: text.replaceAll(/req_\w+|"created":\d+/g, '') };
}
const answers = () => Promise.all(PROBES.map(answer));
async function whileLoading<T>(act: () => Promise<T>): Promise<T> {
  server.engine.enter('loading');
  const result = await act();
  server.engine.enter('ready');
  return result;
}

it('is what it answers without them', async () => {
  const without = await answers();
  const notReady = await whileLoading(() => answer('/health/ready'));
  expect(notReady).toMatchObject({ status: 503, retry: '2' });
  await gather();
  expect(await answers()).toEqual(without);
  expect(await whileLoading(() => answer('/health/ready'))).toEqual(notReady);
});

it('is refused to other hosts and origins', async () => {
  for (const headers of [{ host: 'evil.example' }, { origin: 'https://evil.example' }]) {
    expect((await server.ask('/health/live', { headers })).status).toBe(403);
  }
});

it('counts answers about health', async () => {
  const count = async () => {
    const { text } = await server.ask('/metrics');
    return Number(
      /sida_http_requests_total\{route="\/health\/live",method="GET",status="200"\} (\d+)/.exec(text)?.[1],
    );
  };
  const before = await count();
  await server.ask('/health/live');
  expect(await count()).toBe(before + 1);
});
