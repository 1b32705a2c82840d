/** Checks that an abort of a client ends the generation. */
import { expect } from 'vitest';
import { metricsOf, type ServerProcess } from './server-process.js';

const CANCELLED = 'sida_queue_jobs_total{outcome="cancelled"}';

/** `abort` asks for a generation and aborts it. It must count as cancelled, and leave no sequence and no page. */
export async function expectFreed(server: ServerProcess, abort: () => Promise<void>): Promise<void> {
  const before = (await metricsOf(server))(CANCELLED);
  await abort();
  await server.until(async () => {
    const metric = await metricsOf(server);
    const pages = metric('sida_kv_pages_free') + metric('sida_kv_pages_cached');
    return metric('sida_active_sequences') === 0 && pages === metric('sida_kv_pages');
  });
  expect((await metricsOf(server))(CANCELLED)).toBe(before + 1);
}
