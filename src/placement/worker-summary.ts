/**
 * What a worker tells of itself to those who choose among workers: which experts are resident, and how busy it is.
 *
 * Encoded as one JSON object: `version` 1, `worker`, `experts` (of the model, all layers), `resident` (base64 of one bit
 * an expert by flat id, the lowest bit of the first byte first, unused bits 0), `load`, `capacity`, `publishedMs`.
 */
import { z } from 'zod';
import { RESIDENT } from '../native/addon-types.js';

export interface WorkerSummary {
  worker: string;
  /** Of the model, all layers. */
  experts: number;
  /** (⌈experts / 8⌉), one bit an expert. */
  resident: Uint8Array;
  /** Requests that it holds: running and waiting. */
  load: number;
  /** Most that it holds. */
  capacity: number;
  /** Unix milliseconds by the worker's clock. */
  publishedMs: number;
}

/** `state`: (experts), as `Residency` has it. Experts under way count as missing: they may be taken back. */
export function residentBits(state: Uint8Array): Uint8Array {
  const bits = new Uint8Array(Math.ceil(state.length / 8));
  for (const [id, own] of state.entries()) if (own === RESIDENT) bits[id >> 3]! |= 1 << (id & 7);
  return bits;
}

export function isResident({ resident }: Pick<WorkerSummary, 'resident'>, id: number): boolean {
  return ((resident[id >> 3] ?? 0) & (1 << (id & 7))) !== 0;
}

const count = z.int().nonnegative();
const encodedSchema = z.object({
  version: z.literal(1),
  worker: z.string().min(1).max(256),
  experts: count.max(1 << 24),
  resident: z.base64(),
  load: count,
  capacity: count,
  publishedMs: count,
});

export function encodeSummary({ resident, ...summary }: WorkerSummary): string {
  const encoded: z.infer<typeof encodedSchema> = {
    version: 1,
    ...summary,
    resident: Buffer.from(resident).toString('base64'),
  };
  return JSON.stringify(encoded);
}

/** Undefined for what is no summary, or one of another version: its worker counts as unknown. */
export function decodeSummary(text: string): WorkerSummary | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  const parsed = encodedSchema.safeParse(value);
  if (!parsed.success) return undefined;
  const { version: _, resident: base64, ...summary } = parsed.data;
  const resident = Uint8Array.from(Buffer.from(base64, 'base64'));
  const { experts } = summary;
  if (resident.length !== Math.ceil(experts / 8)) return undefined;
  if (experts % 8 !== 0 && resident.at(-1)! >> (experts % 8) !== 0) return undefined;
  return { ...summary, resident };
}
