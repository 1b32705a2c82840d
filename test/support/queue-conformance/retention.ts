import { describe, expect, it } from 'vitest';
import { eventually } from '../eventually.js';
import { answered, completion, job, type MakeQueue, newId, OWNER, queues } from './harness.js';

export function retentionConformance(make: MakeQueue): void {
  const open = queues(make);

  describe('retention', () => {
    it('drops an ended job and its key after the retention time, and no running job', async () => {
      const harness = await open({ retentionMs: 1_000, concurrency: 2 });
      const staying = await harness.keep('staying');
      await harness.running('staying');
      const key = { key: newId(), digest: 'a' };
      const { record } = await harness.queue.enqueue(newId(), OWNER, job('a'), key);
      await harness.running('a').then((run) => run.finish());
      await harness.ended(record.id);
      expect((await harness.queue.enqueue(newId(), OWNER, job('a'), key)).created).toBe(false);
      await eventually(async () => (await harness.queue.find(record.id, OWNER)) === undefined, 'the drop');
      expect(await harness.queue.watch(record.id, OWNER, () => undefined)).toBeUndefined();
      const again = await harness.queue.enqueue(newId(), OWNER, job('a'), key);
      expect(again.created).toBe(true);
      expect((await harness.record(staying)).status).toBe('running');
      harness.finishAll();
      await harness.ended(again.record.id);
      expect(harness.began).toEqual(['staying', 'a', 'a']);
    });

    it('drops the jobs that ended first when their number exceeds its limit', async () => {
      const harness = await open({ answers: 3, concurrency: 1 });
      harness.finishAll();
      const ids: string[] = [];
      for (const name of ['first', 'second', 'a', 'b', 'c']) {
        ids.push(await harness.keep(name));
        await harness.ended(ids.at(-1)!);
      }
      const gone = async (id: string) => (await harness.queue.find(id, OWNER)) === undefined;
      await eventually(async () => (await gone(ids[0]!)) && (await gone(ids[1]!)), 'the drop');
      for (const [i, name] of ['a', 'b', 'c'].entries()) {
        expect(answered((await harness.record(ids[i + 2]!)).result)).toBe(name);
      }
    });

    it('fails a job whose answer alone exceeds the limit', async () => {
      const harness = await open({ answerBytes: 100 });
      harness.finishAll();
      expect(await harness.ended(await harness.keep('a'))).toMatchObject({
        status: 'failed',
        error: { code: 'cannot_run', details: { limit: 100 } },
        result: null,
      });
      const { stats } = harness.queue;
      await eventually(() => stats.kept.failed === 1 && stats.kept.ended === 1, 'the count of failed jobs');
    });
  });
}

/** Only a queue that keeps its answers in memory counts their bytes. */
export function answerBytesConformance(make: MakeQueue): void {
  const open = queues(make);

  describe('retention by bytes', () => {
    it('drops the oldest answers when their bytes exceed its limit', async () => {
      const harness = await open({ answerBytes: 8_000, concurrency: 1 });
      const text = 'x'.repeat(2_000);
      harness.runs((run) =>
        run.finish({
          kind: 'complete',
          promptTokens: 1,
          completionTokens: 1,
          experts: {} as never,
          timing: { tokenizeMs: 0, queueMs: 0, inferenceMs: 0 },
          choices: [{ index: 0, text, tokenIds: [7], finishReason: 'stop', logprobs: null }],
        }),
      );
      const ids: string[] = [];
      for (let i = 0; i < 6; i += 1) {
        const { record } = await harness.queue.enqueue(newId(), OWNER, completion(`${i}`));
        ids.push(record.id);
        await harness.ended(record.id);
      }
      const kept = async () => {
        const found = await Promise.all(ids.map((id) => harness.queue.find(id, OWNER)));
        return found.map((record) => record !== undefined);
      };
      await eventually(async () => !(await kept())[2], 'the drop');
      expect(await kept()).toEqual([false, false, false, true, true, true]);
    });
  });
}
