// Quantized packs through a real server: packed on first use, reported to clients, and bit-identical at every budget.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { classifyAll, MINI, ServerProcess, sst2 } from '../../support/server-process.js';

const sentences = sst2().slice(0, 40);

describe.each([
  {
    flags: '--experts int4 --group 32 --dense int8 --activations int8',
    model: { expert_dtype: 'int4', expert_group: 32, dense_dtype: 'int8', activations: 'int8' },
  },
  {
    flags: '--experts bf16c --activations bf16',
    model: { expert_dtype: 'bf16c', expert_group: null, dense_dtype: 'bf16', activations: 'bf16' },
  },
])('sida serve --model … $flags', ({ flags, model }) => {
  const packs = mkdtempSync(join(tmpdir(), 'sida-quantized-'));
  afterAll(() => rmSync(packs, { recursive: true, force: true }));
  const start = (...more: string[]) =>
    ServerProcess.start(['--model', MINI, '--pack-dir', packs, ...flags.split(' '), ...more]);

  it('packs on first use, and gives the same bits at every budget and by another policy', async () => {
    const server = await start('--memory-budget', '100%');
    expect(server.output).toMatch(/Packing experts: 100 % \(256\/256 experts\)/);
    expect((await server.get('/v1/models')).body.data[0]).toMatchObject(model);
    const reference = await classifyAll(server, sentences);
    expect(reference).toHaveLength(sentences.length);
    await server.setBudget('smallest');
    expect(await classifyAll(server, sentences)).toEqual(reference);
    const { device } = (await server.get('/admin/budget')).body;
    expect(device.used_bytes).toBeLessThanOrEqual(device.budget_bytes);
    expect(await server.stop()).toBe(0);

    const other = await start('--memory-budget', '25%', '--policy', 'lfu');
    expect(other.output).not.toContain('Packing experts');
    expect(await classifyAll(other, sentences)).toEqual(reference);
    expect(await other.stop()).toBe(0);
  });
});
