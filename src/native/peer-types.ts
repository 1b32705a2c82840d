/** Expert peers: processes that hold a share of a model's experts and compute them for servers. */
import type { Activations, PeerAddress } from './engine-types.js';

export interface ExpertPeerOptions {
  /** Directory of a packed model. */
  pack: string;
  /** By flat id: 1 where the peer holds the expert. */
  held: Uint8Array;
  /** Hard limit of bytes for experts and buffers. */
  budgetBytes: number;
  threads: number;
  activations: Activations;
  /** To listen on; port 0 takes any. */
  address: PeerAddress;
  /** What servers must have, too. */
  peerKey?: string;
  peerIdentity?: string;
}

export interface ExpertPeerStats {
  /** Connected now. */
  servers: number;
  /** The last host that was refused, and why. Empty where none was. */
  lastRefused: string;
}

/** Computes on threads of its own; calls do not wait for them. */
export interface ExpertPeer {
  readonly port: number;
  /** Number of experts. */
  readonly held: number;
  readonly usedBytes: number;
  /** Loads at most `most` experts. Returns how many are still to be loaded. Blocks. */
  load(most: number): number;
  /** Answers servers from now on. */
  start(): void;
  stats(): ExpertPeerStats;
  close(): void;
}
