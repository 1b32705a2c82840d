/** The lines typed in earlier chats, in a file that only their owner can read. */
import { appendFileSync, chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { isMissing } from '../../errors.js';
import { makeDirectory } from '../../files/make-directory.js';

const MOST_LINES = 1000;

export class History {
  readonly file: string;

  constructor(env: NodeJS.ProcessEnv = process.env) {
    const state = env.XDG_STATE_HOME || join(homedir(), '.local', 'state');
    this.file = join(state, 'sida', 'chat-history');
  }

  /** The last lines, the newest first. Throws when the file is there and cannot be used. */
  load(): string[] {
    let text: string;
    try {
      text = readFileSync(this.file, 'utf8');
    } catch (error) {
      if (!isMissing(error)) throw error;
      makeDirectory(dirname(this.file), 0o700);
      return [];
    }
    chmodSync(this.file, 0o600);
    const lines = text.split('\n').filter(Boolean);
    const kept = lines.slice(-MOST_LINES);
    if (lines.length > 2 * MOST_LINES) writeFileSync(this.file, `${kept.join('\n')}\n`);
    return kept.reverse();
  }

  add(line: string): void {
    appendFileSync(this.file, `${line}\n`, { mode: 0o600 });
  }
}
