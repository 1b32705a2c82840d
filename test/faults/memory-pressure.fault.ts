// Another program takes memory of the server's cgroup. The server gives memory back, and later takes it again.
import { execFile } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { promisify } from 'node:util';
import { REPO } from '../support/server-process.js';
import { fault } from './fault.js';

fault('another program takes the memory', async (report) => {
  try {
    accessSync('/sys/fs/cgroup/memory', constants.W_OK);
  } catch {
    report.note('not run: no memory cgroup can be made here');
    return;
  }
  const script = ['bench/scripts/memory-pressure.mjs'];
  const { stdout } = await promisify(execFile)(process.execPath, script, { cwd: REPO });
  const held = [...stdout.matchAll(/"mib":(\d+)/g)].map(([, mib]) => Number(mib));
  report.note(`budget ${Math.max(...held)} MiB, ${Math.min(...held)} MiB beside the other, equal answers`);
  report.atMost('budget beside the other, of that before,', Math.min(...held) / held[0]!, 0.75, '×');
});
