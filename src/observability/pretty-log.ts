/** Writes a line of the JSON log for people. */
import { visible } from '../text/visible.js';

interface LogLine extends Record<string, unknown> {
  level: number;
  time: string;
  msg: string;
  model?: string;
  err?: { type: string; message: string; stack: string };
}

const LEVELS: Record<number, string> = { 40: 'warning', 50: 'error', 60: 'fatal' };

/** `17:43:42 olmoe-mini  checking files`: time, model, message, then the other fields. */
export function prettyLog(json: string): string {
  const { level, time, msg, model, err, pid: _, ...fields } = JSON.parse(json) as LogLine;
  const clock = new Date(time).toTimeString().slice(0, 'hh:mm:ss'.length);
  const text = [LEVELS[level], request(fields) ?? msg].filter(Boolean).join(': ');
  const shown = Object.entries(fields).filter(([name]) => !HIDDEN.has(name));
  const parts = [
    model === undefined ? clock : `${clock} ${model}`,
    err === undefined ? text : `${text}: ${err.message}`,
    shown.map(([name, value]) => `${name}=${written(value)}`).join(' '),
  ];
  // The stack of an error that names its own cause tells a user nothing.
  const stack = err === undefined || err.type === 'SidaError' ? [] : err.stack.split('\n').slice(1);
  return [parts.filter(Boolean).join('  '), ...stack].map((line) => `${visible(line)}\n`).join('');
}

/** Fields of a request that its message has, and the phase of an engine, whose message says it in words. */
const HIDDEN: ReadonlySet<string> = new Set(['method', 'path', 'status', 'ms', 'phase']);

function request({ method, path, status, ms }: Record<string, unknown>): string | undefined {
  return method === undefined ? undefined : `${method} ${path} ${status} in ${ms} ms`;
}

function written(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}
