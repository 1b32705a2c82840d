// Takes a lock again and again and notes each time in a ledger: `node lock-contender.mjs LOCK LEDGER ROUNDS`.
import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';

const module = join(import.meta.dirname, '../../dist/checkpoint/lock-file.js');
const { withLock } = await import(pathToFileURL(module).href);
const [lock, ledger, rounds] = process.argv.slice(2);
/** Names a holder beyond its process, whose id may be used again. */
const me = `${process.pid}-${process.hrtime.bigint()}`;
for (let round = 0; round < Number(rounds); round += 1) {
  await withLock(lock, async () => {
    appendFileSync(ledger, `enter ${me} ${round}\n`);
    await delay(Math.random() * 4);
    appendFileSync(ledger, `leave ${me} ${round}\n`);
  });
}
