// Imported into a process of the command line: leaves the most memory that it held, in KiB. The maximum that getrusage
// gives would include the memory of the test process from which this one was forked.
import { appendFileSync, readFileSync } from 'node:fs';

process.on('exit', () => {
  const [, peak] = /^VmHWM:\s+(\d+) kB/m.exec(readFileSync('/proc/self/status', 'utf8'));
  appendFileSync(process.env.SIDA_PEAK, `${peak}\n`);
});
