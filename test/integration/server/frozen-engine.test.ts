import { expect, it } from 'vitest';
import { MINI, ServerProcess, sst2 } from '../../support/server-process.js';

const INPUT = sst2()
  .slice(0, 4)
  .map(({ text }) => text);

it('a frozen engine process is detected and replaced, and its request is answered', async () => {
  const server = await ServerProcess.start(['--model', MINI, '--memory-budget', '50%']);
  const ask = () => server.post('/v1/classify', { task: 'sst2', input: INPUT });
  const golden = await ask();
  const [pid] = server.enginePids();
  process.kill(pid!, 'SIGSTOP');
  const held = await ask();
  expect(held.status, JSON.stringify(held.body)).toBe(200);
  expect(held.body.data).toEqual(golden.body.data);
  expect(server.enginePids()).not.toContain(pid);
  expect(await server.stop()).toBe(0);
});
