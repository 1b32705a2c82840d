import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { checkWritable } from '../../../src/cli/serve-profile.js';
import { loadAddon } from '../../../src/native/addon.js';
import type { ProfileLane } from '../../../src/native/addon-types.js';
import { type TraceFile, traceEvents } from '../../../src/profile/chrome-trace.js';
import { profiled, profiledFor, recordThread, THREAD_OPS } from '../../../src/profile/thread-events.js';
import { writeTrace } from '../../../src/profile/trace-writer.js';
import { traceSpans } from '../../support/trace-spans.js';

const { profile: recorder } = loadAddon();
const folder = mkdtempSync(join(tmpdir(), 'sida-profile-'));
afterAll(() => rmSync(folder, { recursive: true }));

const OPS = [
  { name: 'take expert', category: 'dispatch' },
  { name: 'prefetch transfer', category: 'transfer' },
  { name: 'batch wait', category: 'queue' },
];

type Row = [op: number, begin: number, duration: number, expert: number];

function laneOf(thread: number, name: string, rows: Row[]): ProfileLane {
  const none = Int32Array.from(rows, () => -1);
  return {
    thread,
    name,
    op: Uint16Array.from(rows, ([op]) => op),
    begin: Float64Array.from(rows, ([, begin]) => begin),
    duration: Float64Array.from(rows, ([, , duration]) => duration),
    layer: Int32Array.from(rows, () => 1),
    expert: Int32Array.from(rows, ([, , , expert]) => expert),
    tokens: none,
    batch: none,
    bytes: Float64Array.from(rows, () => -1),
  };
}

describe('a Chrome trace', () => {
  const lanes = [
    laneOf(7, 'inference', [
      [0, 6000, 10, 3],
      [0, 9000, 10, 3],
    ]),
    laneOf(8, 'transfers', [
      [1, 5500, 1000, 3],
      [1, 9500, 1000, 3],
    ]),
    laneOf(9, 'main', [[2, 5100, 400, -1]]),
  ];
  const events = [...traceEvents({ beginNs: 5000, endNs: 20_000, dropped: 0, lanes }, OPS, 42)];

  it('names its threads', () => {
    const named = events
      .filter(({ name }) => name === 'thread_name')
      .map(({ tid, args }) => [tid, args!.name]);
    expect(named).toEqual([
      [7, 'inference'],
      [8, 'transfers'],
      [9, 'main'],
    ]);
  });

  it('counts microseconds from the start of the recording', () => {
    const [first] = events.filter(({ ph }) => ph === 'X');
    expect(first).toEqual({
      ph: 'X',
      name: 'take expert',
      cat: 'dispatch',
      pid: 42,
      tid: 7,
      ts: 1,
      dur: 0.01,
      args: { layer: 1, expert: 3 },
    });
  });

  it('writes overlapping waits as pairs of events', () => {
    const pair = events.filter(({ name }) => name === 'batch wait');
    expect(pair.map(({ ph, ts, id }) => [ph, ts, id])).toEqual([
      ['b', 0.1, 0],
      ['e', 0.5, 0],
    ]);
  });
});

describe('the events of a thread', () => {
  afterEach(() => {
    if (recorder.now() !== 0) recorder.stop();
  });

  it('have only ops of the recorder', () => {
    const known = recorder.ops.map(({ name }) => name);
    expect(THREAD_OPS.filter((name) => !known.includes(name))).toEqual([]);
  });

  it('are recorded while a recording runs, also on failure, and nest in the file', () => {
    recordThread(recorder, 'inference');
    expect(profiled('account', () => 1)).toBe(1);
    recorder.start(1 << 20);
    const answer = profiled('batch', () => profiled('account', () => 2), { batch: 9, tokens: 4 });
    expect(answer).toBe(2);
    expect(() =>
      profiled('emit', () => {
        throw new Error('no');
      }),
    ).toThrow('no');
    profiledFor('batch wait', 0);
    const file = join(folder, 'p.json');
    const about = writeTrace(recorder, file, 'a model');
    expect(about).toMatchObject({ model: 'a model', events: 4, dropped: 0 });
    expect(recorder.now()).toBe(0);
    const written = JSON.parse(readFileSync(file, 'utf8')) as TraceFile;
    expect(written.otherData).toEqual(about);
    const spans = traceSpans(written);
    expect(spans.map(({ thread, name, parent }) => [thread, name, parent?.name])).toEqual([
      ['inference', 'batch', undefined],
      ['inference', 'account', 'batch'],
      ['inference', 'emit', undefined],
    ]);
    expect(spans[0]!.args).toEqual({ batch: 9, tokens: 4 });
    expect(readdirSync(folder)).toEqual(['p.json']);
  });

  it('are lost with an error when the file cannot be written', () => {
    recorder.start(1 << 20);
    expect(() => writeTrace(recorder, join(folder, 'none', 'p.json'), 'm')).toThrow(/ENOENT/);
    expect(recorder.now()).toBe(0);
  });
});

describe('a file to write to', () => {
  it.each([
    ['in a directory that is not there', join(folder, 'none', 'p.json'), /no such file or directory/],
    ['that is a directory', folder, /it is there and is no file/],
  ])('is refused %s', (_, file, message) => {
    expect(() => checkWritable(file)).toThrow(message);
  });

  it('is not created by the check', () => {
    const before = readdirSync(folder);
    checkWritable(join(folder, 'new.json'));
    expect(readdirSync(folder)).toEqual(before);
  });
});
