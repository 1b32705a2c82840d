import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterEach, describe, expect, it } from 'vitest';
import { TimeLimit } from '../../../src/runs/time-limit.js';
import { run } from '../../../src/support/processes.js';

let limit: TimeLimit;
afterEach(() => limit.close());

describe('TimeLimit', () => {
  it('tries what it does not know, and refuses what took longer than is left', () => {
    let now = 100;
    limit = new TimeLimit(60, () => now);
    expect(limit.refusal('model/lru', 'model')).toBeUndefined();
    limit.took('model', 25);
    limit.took('model/lru', 10);
    limit.took('model/lru', 20);
    limit.took('model/lru', 5);
    now = 139;
    expect(limit.secondsLeft()).toBe(21);
    // The longest of its own kind counts, and the wider kind where it has none.
    expect(limit.refusal('model/lru', 'model')).toBeUndefined();
    expect(limit.refusal('model/lstm', 'model')).toBe('21 s are left, the like of it took 25 s');
    now = 141;
    expect(limit.refusal('model/lru', 'model')).toContain('19 s are left');
    expect(limit.over).toBe(false);
    now = 160;
    expect([limit.over, limit.secondsLeft(), limit.refusal('other')]).toEqual([true, 0, 'the time is over']);
  });

  it('ends before its time when it is told to', () => {
    limit = new TimeLimit(3600);
    limit.end();
    expect([limit.over, limit.signal.aborted, limit.secondsLeft()]).toEqual([true, true, 0]);
  });

  it('ends a program that runs, and what that has started', async () => {
    limit = new TimeLimit(3600);
    const inner = 'setInterval(() => {}, 1000); console.error(process.pid)';
    const outer = `
      const { spawn } = require('node:child_process');
      const child = spawn(process.execPath, ['-e', ${JSON.stringify(inner)}], { stdio: ['ignore', 'ignore', 'pipe'] });
      child.stderr.once('data', (text) => { process.stderr.write('inner ' + text); process.kill(Number(process.env.TEST_PID), 'SIGUSR2'); });
      setInterval(() => {}, 1000);`;
    process.env.TEST_PID = String(process.pid);
    const started = once(process, 'SIGUSR2');
    const running = run(process.execPath, ['-e', outer], { signal: limit.signal });
    await Promise.race([started, running]);
    limit.end();
    const error = await running.then(
      () => undefined,
      (reason: Error) => reason,
    );
    expect(error?.message).toContain('ended with SIGKILL');
    const pid = /inner (\d+)/.exec(error!.message)![1]!;
    const state = spawn('ps', ['-o', 'stat=', '-p', pid], { stdio: ['ignore', 'pipe', 'ignore'] });
    let text = '';
    state.stdout.on('data', (piece) => {
      text += piece;
    });
    await once(state, 'close');
    // Gone, or a zombie that nobody has waited for.
    expect(text.trim()).toMatch(/^(Z.*)?$/);
  });
});
