// The output and the exit codes of the commands, without an engine.
import { readFileSync } from 'node:fs';
import { PassThrough } from 'node:stream';
import { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import { describeFailure, exitCodeOf } from '../../../src/cli/exit.js';
import { addFlags, givenFlags } from '../../../src/cli/flags.js';
import { slotsWithin } from '../../../src/cli/plan.js';
import { Progress } from '../../../src/cli/progress.js';
import { tableLines } from '../../../src/cli/table.js';
import { exampleCurl } from '../../../src/cli/try-it.js';
import { type OptionName, SERVE_OPTIONS } from '../../../src/config/options.js';
import { UsageError } from '../../../src/config/resolve.js';
import { SidaError } from '../../../src/errors.js';
import { writeLines } from '../../../src/text/print.js';
import { screenOf } from '../../support/pty.js';
import { MODEL } from '../queue/scripted-engine.js';
import { ENCODER_ONLY } from '../scheduler/scripted-native-engine.js';

describe('exit codes', () => {
  it('distinguish wrong usage, a bad model and other failures', () => {
    const sida = (code: 'checkpoint_invalid' | 'pack_invalid' | 'io_error' | 'budget_too_small') =>
      new SidaError({ code, message: 'm' });
    expect(exitCodeOf(new UsageError('m'))).toBe(2);
    expect(exitCodeOf(sida('checkpoint_invalid'))).toBe(4);
    expect(exitCodeOf(sida('pack_invalid'))).toBe(4);
    expect(exitCodeOf(sida('budget_too_small'))).toBe(2);
    expect(exitCodeOf(sida('io_error'))).toBe(1);
    // Errors of the addon carry their code on a plain Error.
    expect(exitCodeOf(Object.assign(new Error('m'), { code: 'checkpoint_invalid' }))).toBe(4);
    expect(exitCodeOf(new Error('m'))).toBe(1);
  });

  it('come with a message, and with a stack only for a bug', () => {
    let systemError: unknown;
    try {
      readFileSync('/nope/x');
    } catch (error) {
      systemError = error;
    }
    expect(describeFailure(new UsageError('use it so'))).toEqual(['use it so']);
    expect(describeFailure(Object.assign(new Error('no room'), { code: 'ENOSPC' }))).toEqual([
      'no room (ENOSPC)',
    ]);
    expect(describeFailure(systemError)).toEqual(['/nope/x: no such file or directory']);
    const bug = describeFailure(new TypeError('x is not a function'));
    expect([bug[1], bug.at(-1)]).toEqual([expect.stringMatching(/^ +at /), 'This is a bug.']);
  });
});

describe('flags', () => {
  const names = Object.keys(SERVE_OPTIONS) as OptionName[];

  it('are keyed by the names of the option table', () => {
    const command = addFlags(new Command('serve'), names);
    command.parse(['--batch-wait-ms', '7', '--api-key=k', '--config', 'f.json'], { from: 'user' });
    expect(givenFlags(command.opts())).toEqual({ batchWaitMs: '7', apiKey: 'k', config: 'f.json' });
  });

  it.each([
    [['--lookahead', '5'], '5'],
    [['--lookahead', '5', '--queued-batches', '6'], '6'],
  ])('have former names, which the help leaves out: %j', (args, queuedBatches) => {
    const command = addFlags(new Command('serve'), names);
    command.parse(args, { from: 'user' });
    expect(givenFlags(command.opts())).toEqual({ queuedBatches });
    expect(command.helpInformation()).not.toContain('--lookahead');
  });
});

describe('progress', () => {
  function lines(steps: [number, number][], phase: 'convert' | 'hash' | 'load' = 'convert'): string[] {
    const out = new PassThrough();
    const progress = new Progress(out as unknown as NodeJS.WriteStream);
    for (const [done, total] of steps) progress.show({ phase, done, total });
    progress.stop();
    return String(out.read() ?? '')
      .split('\n')
      .filter(Boolean);
  }

  it('is one line per tenth when there is no terminal', () => {
    const steps = Array.from({ length: 1001 }, (_, done): [number, number] => [done, 1000]);
    const found = lines(steps);
    expect(found).toHaveLength(11);
    expect(found[1]).toBe('Packing experts: 10 % (100/1000 experts)');
  });

  it('counts bytes while hashing, and prints nothing for an empty total', () => {
    expect(lines([[1 << 20, 2 << 20]], 'hash')).toEqual(['Checking files: 50 % (1.00 MiB of 2.00 MiB)']);
    expect(lines([[1, 1]], 'load')).toEqual(['Loading: 100 %']);
    expect(lines([[0, 0]])).toEqual([]);
  });

  it('stays below the lines that are printed, and says no time that it does not know', () => {
    const out = Object.assign(new PassThrough(), { isTTY: true }) as unknown as NodeJS.WriteStream;
    const progress = new Progress(out);
    for (const done of [0, 1, 50]) progress.show({ phase: 'convert', done, total: 100 });
    writeLines(out, 'a line of the log');
    progress.show({ phase: 'convert', done: 100, total: 100 });
    writeLines(out, 'another');
    progress.stop();
    writeLines(out, 'the last');
    const text = String((out as unknown as PassThrough).read());
    expect(text).not.toMatch(/NaN|Infinity|left/);
    expect(screenOf(text)).toEqual([
      'a line of the log',
      'another',
      expect.stringMatching(/^Packing experts +█+ 100 % {2}100\/100 experts$/),
      'the last',
      '',
    ]);
  });
});

it('escapes what stands in a table before it is measured', () => {
  expect(
    tableLines('ll', [
      ['a\nb', 'x'],
      ['c', '\u001b[2J'],
    ]),
  ).toEqual(['a\\u000ab  x', 'c         \\u001b[2J']);
});

it('aligns tables', () => {
  expect(
    tableLines('lr', [
      ['a', '1'],
      ['long', '200'],
    ]),
  ).toEqual(['a       1', 'long  200']);
});

describe('the example request', () => {
  const curl = (model: Partial<typeof MODEL>, key?: string, url = 'http://h:1') =>
    exampleCurl({ ...MODEL, ...model }, url, key);

  it('fits the model', () => {
    expect(curl({})).toContain(
      `http://h:1/v1/classify -H 'content-type: application/json' -d '{"task":"sst2","input":"violin"}'`,
    );
    expect(curl({ tasks: { mrpc: MODEL.tasks.mrpc! } })).toContain(
      '"input":{"text1":"a text1","text2":"a text2"}',
    );
    expect(curl({ tasks: {} })).toContain('/v1/chat/completions');
    expect(curl({ tasks: {}, chat: null })).toContain('/v1/completions');
    expect(curl({ hasTokenizer: false })).toContain('"prompt":[100,101,1]');
    const embeds = { shape: ENCODER_ONLY, tasks: {}, chat: null };
    expect(curl(embeds)).toContain(
      `/v1/embeddings -H 'content-type: application/json' -d '{"input":"a violin"}'`,
    );
    expect(curl({ ...embeds, hasTokenizer: false })).toContain('/v1/embeddings');
    expect(curl({ ...embeds, hasTokenizer: false })).toContain('"input":[100,101]');
  });

  it('names an address that can be connected to', () => {
    expect(curl({}, undefined, 'http://0.0.0.0:80')).toContain('curl http://127.0.0.1:80/');
    expect(curl({}, undefined, 'http://[::]:80')).toContain('http://[::1]:80/');
    expect(curl({}, undefined, 'http://10.0.0.1:80')).toContain('http://10.0.0.1:80/');
  });

  it('shows the variable of the key instead of the key', () => {
    expect(curl({}, '$SIDA_API_KEY')).toContain('-H "authorization: Bearer $SIDA_API_KEY"');
  });
});

it('counts whole slots, and none below the smallest budget', () => {
  const { plan } = MODEL;
  const budgets = [plan.smallest - 1, plan.smallest, plan.fixed + 149, plan.resident, 2 ** 30];
  expect(budgets.map((bytes) => slotsWithin(bytes, plan))).toEqual([0, 1, 2, 8, 8]);
});
