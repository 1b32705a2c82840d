/** The expert peers of the chosen model. */
import { count, type Found, neededExperts, size } from './numbers.js';
import type { Peer } from './server.js';

export function Peers({ peers, found }: { peers: readonly Peer[]; found: Found }) {
  if (peers.length === 0) return null;
  return (
    <>
      <p id="peers-text" class="quiet">
        {sharesText(found)}
      </p>
      <ul id="peers">
        {peers.map((peer) => (
          <li key={peer.address}>{peerText(peer)}</li>
        ))}
      </ul>
    </>
  );
}

export function sharesText(found: Found): string {
  const needed = neededExperts(found);
  if (needed === 0) return 'Expert peers have computed nothing yet.';
  return `Expert peers computed ${((100 * found.peer) / needed).toFixed(1)} % of ${count(needed)} experts needed.`;
}

export function peerText(peer: Peer): string {
  const { address, connected, error, held, failures } = peer;
  const requests = failures === 1 ? 'request' : 'requests';
  const failed = failures === 0 ? '' : `, ${count(failures)} ${requests} without an answer`;
  if (!connected) return `${address}: ${error ?? 'not connected'}. Its experts are loaded here${failed}.`;
  const network = `${peer.round_trip_ms.toFixed(2)} ms there and back, ${size(peer.bytes_per_second)}/s`;
  return `${address}: connected, holds ${count(held)} experts, computed ${count(peer.experts)}${failed}; ${network}.`;
}
