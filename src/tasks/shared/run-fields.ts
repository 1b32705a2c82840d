/** What requests of every task say of their run, in the fields of a job. */
import type { JobRequest } from '../../protocol/engine-messages.js';

interface RunRequest {
  include?: readonly string[] | null | undefined;
  routing?: 'exact' | 'predicted' | null | undefined;
  routing_k?: number | null | undefined;
  max_seconds?: number | null | undefined;
}

export function runFieldsOf({ include, routing, routing_k: k, max_seconds: maxSeconds }: RunRequest) {
  return {
    explain: include?.includes('experts') ?? false,
    ...(include?.includes('quote') && { quoted: true }),
    ...(maxSeconds != null && { maxSeconds }),
    routing: { mode: routing ?? null, k: k ?? null },
  } satisfies Partial<JobRequest>;
}
