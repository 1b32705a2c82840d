import { eventually } from './eventually.js';
import { freePort } from './free-port.js';
import { ownPacks, SidaProcess } from './sida-process.js';

/** `sida experts` as a child process. */
export class ExpertPeerProcess extends SidaProcess {
  readonly port: number;

  private constructor(port: number, args: string[]) {
    const { flags, remove } = ownPacks();
    const listen = ['--listen', `127.0.0.1:${port}`, '--memory-budget', '1GiB', '--threads', '1'];
    super(['experts', ...listen, ...flags, '--activations', 'f32', ...args], remove);
    this.port = port;
  }

  get address(): string {
    return `127.0.0.1:${this.port}`;
  }

  /** Resolves when servers may connect. */
  static async start(model: string, share: string, port?: number): Promise<ExpertPeerProcess> {
    const peer = new ExpertPeerProcess(port ?? (await freePort()), [model, '--share', share]);
    await eventually(() => {
      if (!peer.alive) throw new Error(`the expert peer ended:\n${peer.output}`);
      return peer.output.includes('Servers find them');
    }, 'the expert peer');
    return peer;
  }
}
