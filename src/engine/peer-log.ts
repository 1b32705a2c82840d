/** Tells when an expert peer of this engine comes and goes. */
import type { Activations, PeerLink } from '../native/addon-types.js';
import { warnLines } from '../text/print.js';
import { VERSION } from '../version.js';

/** Names what decides the bits of an expert's output. A server and its peers must have the same. */
export const peerIdentityOf = (fingerprint: string, activations: Activations): string =>
  `${fingerprint} ${activations} ${VERSION}`;

export class PeerLog {
  /** Whether each peer was connected, by its address. */
  readonly #connected = new Map<string, boolean>();

  constructor(peers: readonly PeerLink[]) {
    this.show(peers);
  }

  show(peers: readonly PeerLink[]): void {
    for (const { address, connected, error, held } of peers) {
      if (this.#connected.get(address) === connected) continue;
      this.#connected.set(address, connected);
      warnLines(
        connected
          ? `Expert peer ${address}: connected, holds ${held.toLocaleString('en')} experts`
          : `Expert peer ${address}: ${error}. Its experts are loaded here until it is back`,
      );
    }
  }
}
