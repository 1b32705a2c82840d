// The machine has no memory left: the nth allocation of the addon fails, at start and at work.
import { expect } from 'vitest';
import { MINI, ServerProcess } from '../support/server-process.js';
import { fault } from './fault.js';
import { FaultShim } from './shim.js';
import { Subject } from './subject.js';

/** More than the addon asks for to open switch-mini with a small budget. */
const MOST = 40;

/** Starts a server whose nth allocation fails. Its exit code and words; undefined when it took so many. */
async function start(
  shim: FaultShim,
  nth: number,
): Promise<{ code: number | null; output: string } | undefined> {
  shim.failAllocation(nth);
  const flags = ['--model', MINI, '--memory-budget', '1%', '--log-level', 'warn'];
  const server = await shim.during(() => ServerProcess.launch(flags));
  const ready = server.ready(60_000).then(
    () => true,
    () => false,
  );
  const ended = await Promise.race([server.exit.then(() => true), ready.then((is) => !is)]);
  const failed = shim.failedAllocations > 0;
  if (!ended) await server.stop();
  const code = await server.exit;
  shim.failAllocation(0);
  return failed ? { code: ended ? code : 0, output: server.output } : undefined;
}

fault('allocations fail', async (report) => {
  const shim = new FaultShim();
  const subject = await shim.during(() => Subject.start('--memory-budget', '10%', '--host-budget', '5%'));
  try {
    const budget = async () => (await subject.ask('/admin/budget')).json.device;
    const put = (size: string) => subject.ask('/admin/budget', { method: 'PUT', body: { device: size } });
    const device = await budget();
    const refused = [1, 2, 3, 10, 50, 100, 200];
    for (const nth of refused) {
      shim.failAllocation(nth);
      const { status, json } = await put('100%');
      expect(shim.failedAllocations).toBe(1);
      expect([nth, status, json.error.code]).toEqual([nth, 500, 'out_of_memory']);
      const now = await budget();
      expect([now.budget_bytes, now.used_bytes]).toEqual([device.budget_bytes, device.used_bytes]);
      await subject.good();
    }
    report.note(`${refused.length} budgets refused with out_of_memory, the old one held`);

    // There is room again: what was refused is done.
    expect((await put('100%')).status).toBe(200);
    await subject.good();
    expect((await put(String(device.budget_bytes))).status).toBe(200);

    let starts = 0;
    for (let nth = 1; nth <= MOST; nth += nth < 8 ? 1 : 8) {
      const failed = await start(shim, nth);
      if (failed === undefined) break;
      expect([nth, failed.code]).toEqual([nth, 1]);
      expect(failed.output).toMatch(/^sida: .*(no \d+ bytes left|memory)/im);
      starts += 1;
    }
    expect(starts).toBeGreaterThan(3);
    report.note(`${starts} starts ended with 1 and one line`);
    expect((await subject.metrics())('sida_engine_restarts_total')).toBe(0);
    await subject.recovered(report);
  } finally {
    await subject.stop();
    shim.remove();
  }
});
