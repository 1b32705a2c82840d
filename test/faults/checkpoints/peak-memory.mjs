// Imported into a process of the command line: leaves the most memory that it held, in KiB.
import { appendFileSync } from 'node:fs';

process.on('exit', () => appendFileSync(process.env.SIDA_PEAK, `${process.resourceUsage().maxRSS}\n`));
