// Expert peers that die, freeze and are slow in the middle of answers, and what strangers send them.
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import { eventually } from '../support/eventually.js';
import { ExpertPeerProcess } from '../support/expert-peer-process.js';
import { metricsOf, REPO, ServerProcess, sst2 } from '../support/server-process.js';
import { SLOW_MS, TcpProxy } from '../support/tcp-proxy.js';
import { type FaultReport, fault } from './fault.js';
import { essence } from './golden.js';

const MODEL = join(REPO, 'models/olmoe-mini');
const PROMPTS = sst2()
  .slice(0, 12)
  .map(({ text }) => text);
const MIB = 1024 ** 2;

/** Asks everything at once; gives the answers and the time of the slowest. */
async function answers(server: ServerProcess): Promise<{ told: string[]; seconds: number }> {
  const began = performance.now();
  const told = await Promise.all(
    PROMPTS.map(async (prompt) => {
      const { status, body } = await server.post('/v1/completions', { prompt, max_tokens: 24 });
      expect(status, JSON.stringify(body)).toBe(200);
      return essence(body);
    }),
  );
  return { told, seconds: (performance.now() - began) / 1000 };
}

interface Machines {
  server: ServerProcess;
  peer: ExpertPeerProcess;
  golden: string[];
  /** Seconds of all answers, with the peer. */
  usual: number;
  /** A metric of the peer. */
  figure: (name: string) => Promise<number>;
}

/** `through`: what the server takes for the peer. */
async function withPeer(
  body: (machines: Machines) => Promise<void>,
  through: (port: number) => Promise<number> = async (port) => port,
): Promise<void> {
  const alone = await ServerProcess.start(['--model', MODEL, '--memory-budget', '100%']);
  const { told: golden } = await answers(alone).finally(() => alone.stop());
  const peer = await ExpertPeerProcess.start(MODEL, '2/2');
  const at = `127.0.0.1:${await through(peer.port)}`;
  const server = await ServerProcess.start(['--model', MODEL, '--expert-peers', at]);
  const figure = async (name: string) => (await metricsOf(server))(`sida_expert_peer_${name}{peer="${at}"}`);
  try {
    const { told } = await answers(server);
    expect(told).toEqual(golden);
    const { seconds: usual } = await answers(server);
    expect(await figure('experts')).toBeGreaterThan(0);
    await body({ server, peer, golden, usual, figure });
  } finally {
    await Promise.all([server.stop(), peer.stop()]);
  }
}

async function rightly({ server, golden, usual }: Machines, report: FaultReport): Promise<void> {
  const { told, seconds } = await answers(server);
  expect(told).toEqual(golden);
  const quiet = { what: 'all answers with the peer, and 1 s', value: usual + 1, times: 4 };
  report.withinTime('all answers after', seconds, 5, 's', quiet);
}

fault('kill -9 of an expert peer in the middle of answers, and its return', (report) =>
  withPeer(async (machines) => {
    const { peer, figure } = machines;
    const running = rightly(machines, report);
    await delay(20);
    await peer.kill();
    await running;
    await rightly(machines, report);
    const back = await ExpertPeerProcess.start(MODEL, '2/2', peer.port);
    try {
      const before = await figure('experts');
      // The figures are those of the last pass.
      await eventually(async () => {
        await rightly(machines, report);
        return (await figure('up')) === 1 && (await figure('experts')) > before;
      }, 'the peer');
      report.note(
        `${await figure('experts')} experts by the peer, ${await figure('failures')} requests failed`,
      );
    } finally {
      await back.stop();
    }
  }),
);

fault('an expert peer that freezes in the middle of answers', (report) =>
  withPeer(async (machines) => {
    const { peer, figure } = machines;
    const running = rightly(machines, report);
    await delay(20);
    peer.child.kill('SIGSTOP');
    await running;
    await rightly(machines, report);
    peer.child.kill('SIGCONT');
    await eventually(async () => {
      await rightly(machines, report);
      return (await figure('up')) === 1;
    }, 'the peer');
    report.note(`${await figure('failures')} requests failed`);
  }),
);

fault(`a network to an expert peer that becomes slower by ${SLOW_MS} ms`, async (report) => {
  let proxy: TcpProxy | undefined;
  const through = async (port: number) => {
    proxy = await TcpProxy.to(port);
    return proxy.port;
  };
  try {
    await withPeer(async (machines) => {
      proxy!.weather = 'slow';
      await rightly(machines, report);
      await rightly(machines, report);
      report.note(`${await machines.figure('failures')} requests failed`);
    }, through);
  } finally {
    await proxy?.close();
  }
});

fault('strangers and a killed server at an expert peer', (report) =>
  withPeer(async ({ server, peer, golden }) => {
    const memory = () =>
      Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${peer.child.pid}/status`, 'utf8'))![1]) * 1024;
    // The log is written once a second.
    await eventually(() => peer.output.includes('Connected servers: 1'), 'the connection');
    const before = memory();
    for (let stranger = 0; stranger < 200; stranger++) {
      await new Promise<void>((resolve) => {
        const socket = connect(peer.port, '127.0.0.1', () => socket.end(randomBytes(4096)));
        socket.on('close', () => resolve()).on('error', () => undefined);
        setTimeout(() => socket.destroy(), 200);
      });
    }
    await server.kill();
    await eventually(() => peer.output.includes('Connected servers: 0'), 'the end of the connection');
    report.atMost('memory after 200 strangers', (memory() - before) / MIB, 16, 'MiB');
    const next = await ServerProcess.start(['--model', MODEL, '--expert-peers', peer.address]);
    try {
      expect((await answers(next)).told).toEqual(golden);
      const up = (await metricsOf(next))(`sida_expert_peer_experts{peer="${peer.address}"}`);
      expect(up).toBeGreaterThan(0);
    } finally {
      await next.stop();
    }
  }),
);
