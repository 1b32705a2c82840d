// What commands show on a terminal.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { hasTerminals, Terminal } from '../../support/pty.js';

const folder = mkdtempSync(join(tmpdir(), 'sida-terminal-'));
afterAll(() => rmSync(folder, { recursive: true }));

describe.skipIf(!hasTerminals)('sida serve on a terminal', () => {
  it('logs for people, above its progress bars, without polls and probes', async () => {
    const models = ['models/switch-mini', 'models/olmoe-mini'];
    const terminal = new Terminal(['serve', ...models, '--port', '0', '--pack-dir', folder]);
    await terminal.shows('Try them:');
    const url = /http:\/\/127\.0\.0\.1:\d+/.exec(terminal.output)![0];
    for (const path of ['/health/ready', '/v1/models', '/none']) await fetch(url + path);
    await terminal.shows('/none');
    terminal.type('\u0003');
    expect(await terminal.exit).toBe(0);
    const { screen } = terminal;
    expect(screen).toContainEqual(expect.stringMatching(/^\d\d:\d\d:\d\d olmoe-mini {2}loading the model$/));
    expect(screen.filter((line) => /"level"|\}$/.test(line) && !line.includes('curl'))).toEqual([]);
    // A bar has a line of its own.
    const bars = screen.filter((line) => /[█░]/.test(line));
    expect(bars.length).toBeGreaterThan(0);
    for (const line of bars) expect(line).toMatch(/^[A-Z][a-z ]+ [█░]+ \d+ %[^{}]*$/);
    const requests = screen.filter((line) => line.includes('GET '));
    expect(requests).toEqual([expect.stringMatching(/^\d\d:\d\d:\d\d {2}GET \/none 404 in [\d.]+ ms/)]);
  });
});
